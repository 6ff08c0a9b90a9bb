package wire_test

import (
	"testing"

	"github.com/redisevents/restatestart/internal/wire"
)

// What a header block yields, packed again, yields the same; a broken block is an error, never a panic.
func FuzzHeaders(f *testing.F) {
	for _, seed := range []string{"", "5:brand6:orange", "1:a", "x:a1:b", ":a", "9:abc", "0:0:", "00001:a1:b"} {
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

// An id that is read is written the same up to leading zeros, and the id before it is below it.
func FuzzID(f *testing.F) {
	for _, seed := range []string{"0-0", "1-2", "1-2-3", "+1-2", "18446744073709551615-18446744073709551615", "5-1|x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := wire.ParseID(text)
		if err != nil {
			return
		}
		back, err := wire.ParseID(id.String())
		if err != nil || back != id {
			t.Fatalf("%q became %q (%v)", text, id, err)
		}
		if before := id.Before(); !id.IsZero() && before.Compare(id) >= 0 {
			t.Fatalf("%q: before is %q", text, before)
		}
	})
}
