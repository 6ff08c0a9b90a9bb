package wire_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/wire"
)

func TestKeysCarryTheTopicAsHashTag(t *testing.T) {
	t.Parallel()
	keys := wire.Keys{Topic: "offer_odds"}
	assert.Equal(t, "s:{offer_odds}:0", keys.Stream(0))
	assert.Equal(t, "s:{offer_odds}:15", keys.Stream(15))
	assert.Equal(t, "p:{offer_odds}:offer-products", keys.Positions("offer-products"))
	assert.Equal(t, "p:{offer_odds}:offer-products:meta", keys.PositionsMeta("offer-products"))
	assert.Equal(t, "m:{offer_odds}", keys.Meta())

	prefixed := wire.Keys{Prefix: "dev:re:", Topic: "offer_odds"}
	assert.Equal(t, "dev:re:s:{offer_odds}:0", prefixed.Stream(0))
	assert.Equal(t, "xs:{t}:0", wire.Keys{Prefix: "x", Topic: "t"}.Stream(0), "no separator is added")
}

func TestIDsAreParsedAsRedisEventsParsesThem(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0-0", "1-0", "1726000000000-7", "9223372036854775807-9223372036854775807", "18446744073709551615-18446744073709551615"} {
		id, err := wire.ParseID(text)
		require.NoError(t, err, text)
		assert.Equal(t, text, id.String())
	}
	for _, text := range []string{"", "123", "-5", "5-", "abc-1", "1-abc", "1-2-3", " 1-2", "1-2 ", "+1-2", "1-+2", "-1--2", "99999999999999999999-0"} {
		_, err := wire.ParseID(text)
		require.Error(t, err, text)
	}
	ordered := []wire.ID{{}, {Ms: 1}, {Ms: 1, Seq: 9}, {Ms: 1, Seq: 10}, {Ms: 2}}
	for i := 1; i < len(ordered); i++ {
		assert.Equal(t, -1, ordered[i-1].Compare(ordered[i]))
		assert.Equal(t, 1, ordered[i].Compare(ordered[i-1]))
	}
}

func TestReadingAfterBeforeGetsTheEntryFirst(t *testing.T) {
	t.Parallel()
	assert.Equal(t, wire.ID{Ms: 5, Seq: 2}, wire.ID{Ms: 5, Seq: 3}.Before())
	assert.Equal(t, wire.ID{Ms: 4, Seq: math.MaxInt64}, wire.ID{Ms: 5}.Before())
	assert.Equal(t, wire.ID{}, wire.ID{}.Before())
}

func TestHeaderBlocksMatchTheGoldenVectors(t *testing.T) {
	t.Parallel()
	vectors := []struct {
		headers []wire.Header
		packed  string
	}{
		{[]wire.Header{{Name: "brand", Value: "orange"}, {Name: "attempt", Value: "3"}}, "5:brand6:orange7:attempt1:3"},
		{[]wire.Header{{}}, "0:0:"},
		{[]wire.Header{{Name: "only", Value: "one"}}, "4:only3:one"},
		{[]wire.Header{{Name: "3:abc", Value: "3:abc"}}, "5:3:abc5:3:abc"},
		{[]wire.Header{{Name: "héllo:wörld", Value: "ünïcode:2"}}, "13:héllo:wörld11:ünïcode:2"},
		{nil, ""},
	}
	for _, vector := range vectors {
		packed, err := wire.PackHeaders(vector.headers...)
		require.NoError(t, err)
		assert.Equal(t, vector.packed, string(packed))
		var back []wire.Header
		for header, err := range packed.All() {
			require.NoError(t, err)
			back = append(back, header)
		}
		assert.Equal(t, vector.headers, back)
	}
}

func TestPackedHeadersAreLimited(t *testing.T) {
	t.Parallel()
	_, err := wire.PackHeaders(wire.Header{Name: "k", Value: strings.Repeat("v", 8184)})
	require.NoError(t, err)
	_, err = wire.PackHeaders(wire.Header{Name: "k", Value: strings.Repeat("v", 8185)})
	require.ErrorContains(t, err, "8193 bytes")
	_, err = wire.PackHeaders(make([]wire.Header, 64)...)
	require.NoError(t, err)
	_, err = wire.PackHeaders(make([]wire.Header, 65)...)
	require.ErrorContains(t, err, "65 headers")
}

func TestAMalformedHeaderBlockIsAnErrorOnlyWhenRead(t *testing.T) {
	t.Parallel()
	for _, block := range []wire.Headers{"1:a", "x:a1:b", ":a", "5", "9:abc", "1:a9:b", "99999999999999999999:a"} {
		var last error
		for _, err := range block.All() {
			last = err
		}
		require.ErrorIs(t, last, wire.ErrHeaders, string(block))
	}
	half := wire.Headers("1:a1:b9:z")
	value, found, err := half.Lookup("a")
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, "b", value)
	_, _, err = half.Lookup("q")
	require.ErrorIs(t, err, wire.ErrHeaders)

	value, found, err = wire.Headers("01:a1:b1:a1:c").Lookup("a")
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, "b", value, "leading zeros are accepted and the first of a name wins")
}

func TestEveryEntryFieldIsOptional(t *testing.T) {
	t.Parallel()
	id := wire.ID{Ms: 1}
	bare := wire.Decode(id, map[string]any{"x": "unknown", "": "no name"})
	assert.Equal(t, wire.Entry{ID: id}, bare)

	full := wire.Entry{
		ID: id, Body: `{}`, HasBody: true, Type: "BetSettled", Key: "cust-42", CorrelationID: "c-1",
		TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Headers: "4:only3:one",
	}
	fields := full.Fields()
	names := make([]any, 0, 6)
	values := map[string]any{}
	for i := 0; i < len(fields); i += 2 {
		name, ok := fields[i].(string)
		require.True(t, ok)
		names = append(names, name)
		values[name] = fields[i+1]
	}
	assert.Equal(t, []any{"b", "t", "k", "c", "p", "h"}, names)
	assert.Equal(t, full, wire.Decode(id, values))
	assert.Equal(t, []any{"b", "x", "t", "", "k", ""}, wire.Entry{Body: "x"}.Fields())

	empty := wire.Decode(id, map[string]any{"b": ""})
	assert.True(t, empty.HasBody, "an empty body is a body")
	odd := wire.Decode(id, map[string]any{"b": 7, "t": nil})
	assert.False(t, odd.HasBody, "a value of another type is ignored")
}

func TestInstanceIDsMatchThoseOfRedisEvents(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"svc-0":            "1b3a45ca-59c5-d080-8e1c-02429c2efc50",
		"svc-1":            "11c7db43-78ec-ec85-be43-a32aea5fd96e",
		"offer-products-0": "b4c0718c-ff0f-688d-bda1-11fba62ca081",
		"host-a#0":         "33f1a935-23f6-4989-9acf-0a84b432b2ab",
		"pod-x":            "cb755fc3-f536-7484-9607-5582e146c4a5",
	} {
		assert.Equal(t, want, wire.DeriveInstanceID(name).String(), name)
	}
	random := wire.RandomInstanceID()
	assert.NotEqual(t, random, wire.RandomInstanceID())
}
