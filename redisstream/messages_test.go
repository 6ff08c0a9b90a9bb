package redisstream_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/redisstream"
)

func TestAMessageHasEveryFieldOfItsEntry(t *testing.T) {
	t.Parallel()
	entry := redis.XMessage{ID: "1726000000000-7", Values: map[string]any{
		"b": `{"key":"k"}`, "t": "BetSettled", "k": "cust-42", "c": "corr-1", "p": testkit.Producer,
		"h": "5:brand6:orange7:attempt1:3", "unknown": "ignored",
	}}
	message, err := redisstream.NewMessage("s:{claims}:3", 3, entry, decodeClaim)
	require.NoError(t, err)
	value, found, err := message.Headers.Lookup("attempt")
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, "3", value)
	var headers []restatestart.Header
	for header, err := range message.Headers.All() {
		require.NoError(t, err)
		headers = append(headers, header)
	}
	assert.Equal(t, []restatestart.Header{{Name: "brand", Value: "orange"}, {Name: "attempt", Value: "3"}}, headers)
	packed, err := restatestart.NewHeaders(headers...)
	require.NoError(t, err)
	assert.Equal(t, claimMessage{
		Value: testkit.Claim{Key: "k"}, ID: "1726000000000-7", Stream: "s:{claims}:3", Partition: 3, Type: "BetSettled", Key: "cust-42",
		CorrelationID: "corr-1", TraceParent: testkit.Producer,
		Headers: packed, Body: []byte(`{"key":"k"}`),
	}, message)
}

func TestTheErrorOfAMalformedEntryNamesIt(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		entry redis.XMessage
		text  string
	}{
		"no body":                 {redis.XMessage{ID: "1-2", Values: map[string]any{"payload": "{}"}}, `entry 1-2 of s: malformed entry: there is no field "b"`},
		"no fields":               {redis.XMessage{ID: "1-2"}, `no field "b"`},
		"a body that is not text": {redis.XMessage{ID: "1-2", Values: map[string]any{"b": 7}}, `no field "b"`},
		"broken JSON":             {redis.XMessage{ID: "1-2", Values: map[string]any{"b": "{bad"}}, "entry 1-2 of s: malformed entry: invalid character"},
		"an invalid id":           {redis.XMessage{ID: "x", Values: map[string]any{"b": "{}"}}, "not a stream id"},
	} {
		_, err := redisstream.NewMessage("s", 0, row.entry, decodeClaim)
		require.ErrorIs(t, err, redisstream.ErrMalformed, name)
		require.ErrorContains(t, err, row.text, name)
	}
	_, err := redisstream.NewMessage("s", 0, redis.XMessage{ID: "1-2", Values: map[string]any{"b": "{}"}}, func([]byte) (testkit.Claim, error) { panic(testkit.ErrBoom) })
	require.ErrorIs(t, err, redisstream.ErrMalformed)
	require.ErrorIs(t, err, testkit.ErrBoom)
}

func TestAMalformedHeaderBlockIsAnErrorOfTheLookupOnly(t *testing.T) {
	t.Parallel()
	entry := redis.XMessage{ID: "1-2", Values: map[string]any{"b": "{}", "h": "1:a1:b9:z"}}
	message, err := redisstream.NewMessage("s", 0, entry, decodeClaim)
	require.NoError(t, err)
	value, found, err := message.Headers.Lookup("a")
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, "b", value)
	_, _, err = message.Headers.Lookup("q")
	require.ErrorContains(t, err, "malformed header block")
}

// Errors do not repeat the body, which may hold an amount or an account.
func TestJSONDecodesExactlyOneValue(t *testing.T) {
	t.Parallel()
	type amount struct {
		Cents int8            `json:"cents"`
		Raw   json.RawMessage `json:"raw"`
	}
	value, err := redisstream.JSON[amount]([]byte(" {\"cents\":7,\"raw\":9007199254740993}\n"))
	require.NoError(t, err)
	assert.Equal(t, amount{Cents: 7, Raw: json.RawMessage("9007199254740993")}, value)
	null, err := redisstream.JSON[amount]([]byte("null"))
	require.NoError(t, err)
	assert.Zero(t, null)

	for body, text := range map[string]string{
		"":                   "body is empty",
		"  ":                 "body is empty",
		"{} x":               "after top-level value",
		"{}{}":               "after top-level value",
		"{\"cents\":":        "unexpected end",
		"{\"raw\":\"\xff\"}": "not valid UTF-8",
		`{"cents":31415}`:    "field cents, at byte 14, does not fit int8",
		`[27182]`:            "body, at byte 1, does not fit redisstream_test.amount",
	} {
		_, err := redisstream.JSON[amount]([]byte(body))
		require.ErrorContains(t, err, text, body)
		assert.NotContains(t, err.Error(), "31415")
		assert.NotContains(t, err.Error(), "27182")
	}
	// The error of a type's own UnmarshalJSON may quote the body: errors.As finds it, and the text does not show it.
	_, err = redisstream.JSON[struct{ At time.Time }]([]byte(`{"At":"DE89370400440532013000"}`))
	var parse *time.ParseError
	require.ErrorAs(t, err, &parse)
	assert.NotContains(t, err.Error(), "DE89")
}
