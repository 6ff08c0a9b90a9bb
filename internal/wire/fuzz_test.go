package wire_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redisevents/restatestart/internal/wire"
)

// Headers survive unpacking and packing; a malformed block is an error, never a panic.
func FuzzHeaders(f *testing.F) {
	for _, seed := range []string{"", "5:brand6:orange", "1:a", "x:a1:b", ":a", "9:abc", "0:0:", "00001:a1:b", "2147483648:a", "13:héllo:wörld11:ünïcode:2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, block string) {
		var headers []wire.Header
		for header, err := range wire.Headers(block).All() {
			if err != nil {
				return
			}
			headers = append(headers, header)
		}
		packed, err := wire.PackHeaders(headers...)
		if err != nil {
			return
		}
		if len(packed) > len(block) {
			t.Fatalf("%q grew to %q", block, packed)
		}
		i := 0
		for header, err := range packed.All() {
			if err != nil || header != headers[i] {
				t.Fatalf("%q: header %d is %v (%v), was %v", block, i, header, err, headers[i])
			}
			i++
		}
		if i != len(headers) {
			t.Fatalf("%q: %d headers came back of %d", block, i, len(headers))
		}
	})
}

// A position survives parsing and formatting, and Before is below it. What is a valid id is defined here once more, as the
// server-side scripts define it: digits, a dash, digits, each within 64 bits.
func FuzzPosition(f *testing.F) {
	for _, seed := range []string{"0-0", "1-2", "1-2-3", "+1-2", "18446744073709551615-18446744073709551615", "18446744073709551616-0", "5-1|x", "5|x", "007-08|a|b", "-", "1-"} {
		f.Add(seed)
	}
	writer := wire.DeriveInstanceID("svc-0")
	f.Fuzz(func(t *testing.T, value string) {
		id, err := wire.ParsePosition(value)
		text, _, _ := strings.Cut(value, "|")
		ms, seq, dash := strings.Cut(text, "-")
		if valid := dash && digits(ms) && digits(seq); valid != (err == nil) {
			t.Fatalf("%q: valid %v, read with %v", value, valid, err)
		}
		if err != nil {
			return
		}
		back, err := wire.ParsePosition(wire.FormatPosition(id, writer))
		if err != nil || back != id {
			t.Fatalf("%q became %q (%v)", value, id, err)
		}
		if target, err := wire.ParseReset(wire.FormatReset(id, time.Unix(0, 0))); err != nil || target != id {
			t.Fatalf("%q as a reset became %q (%v)", value, target, err)
		}
		if before := id.Before(); !id.IsZero() && before.Compare(id) >= 0 {
			t.Fatalf("%q: before is %q", value, before)
		}
	})
}

// digits reports whether text is an unsigned 64-bit number, by the rule of LuaIDs.
func digits(text string) bool {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return false
	}
	text = strings.TrimLeft(text, "0")
	const most = "18446744073709551615"
	return len(text) < len(most) || len(text) == len(most) && text <= most
}

// An entry survives being decoded, added again and decoded.
func FuzzEntry(f *testing.F) {
	f.Add(`{"key":"k"}`, "BetSettled", "cust-42", "corr", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "5:brand6:orange", "x", byte(0xFF))
	f.Add("", "", "", "", "", "", "", byte(0))
	f.Add("\xff\x00", "t", "", "c", "", "broken", "b", byte(0x2B))
	f.Fuzz(func(t *testing.T, body, kind, key, correlation, parent, headers, unknown string, present byte) {
		fields := map[string]any{unknown: unknown}
		for i, field := range [...]struct{ name, value string }{
			{wire.FieldBody, body},
			{wire.FieldType, kind},
			{wire.FieldKey, key},
			{wire.FieldCorrelation, correlation},
			{wire.FieldTraceParent, parent},
			{wire.FieldHeaders, headers},
		} {
			if present&(1<<i) != 0 {
				fields[field.name] = field.value
			} else {
				delete(fields, field.name)
			}
		}
		id := wire.ID{Ms: 1}
		entry := wire.Decode(id, fields)
		if _, has := fields[wire.FieldBody]; entry.HasBody != has {
			t.Fatalf("has a body: %v, was %v", entry.HasBody, has)
		}
		if !entry.HasBody {
			return
		}
		again := map[string]any{}
		pairs := entry.Fields()
		for i := 0; i < len(pairs); i += 2 {
			name, _ := pairs[i].(string)
			again[name] = pairs[i+1]
		}
		if back := wire.Decode(id, again); back != entry {
			t.Fatalf("%+v became %+v", entry, back)
		}
		_, _, _ = entry.Headers.Lookup(key)
	})
}
