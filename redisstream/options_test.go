package redisstream_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/preflight"
	"github.com/redisevents/restatestart/redisstream"
)

func TestNewConsumerNamesTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "nowhere.invalid:1"})
	t.Cleanup(func() { _ = client.Close() })
	index := func(n int) *int { return &n }
	for field, change := range map[string]func(*redisstream.Options){
		"Consumer: a name is required":           func(o *redisstream.Options) { o.Consumer = "" },
		`Consumer: "x:meta" ends in :meta`:       func(o *redisstream.Options) { o.Consumer = "x:meta" },
		"Partitions: -1 is negative":             func(o *redisstream.Options) { o.Partitions = -1 },
		"BatchSize: -1 is negative":              func(o *redisstream.Options) { o.BatchSize = -1 },
		"Block: -1s is negative":                 func(o *redisstream.Options) { o.Block = -time.Second },
		"Block: 1.5ms is not in whole":           func(o *redisstream.Options) { o.Block = 1500 * time.Microsecond },
		"ReadAhead: -1 is negative":              func(o *redisstream.Options) { o.ReadAhead = -1 },
		"PersistInterval: -1s is negative":       func(o *redisstream.Options) { o.PersistInterval = -time.Second },
		"Persist: there is no choice 9":          func(o *redisstream.Options) { o.Persist = 9 },
		"DrainTimeout: -1s is negative":          func(o *redisstream.Options) { o.DrainTimeout = -time.Second },
		"HoldMin: -1s is negative":               func(o *redisstream.Options) { o.HoldMin = -time.Second },
		"DrainTimeout: 10ns is below a millise":  func(o *redisstream.Options) { o.DrainTimeout = 10 },
		"HoldMax: -1s is negative":               func(o *redisstream.Options) { o.HoldMax = -time.Second },
		"HoldMin: 1m0s is above HoldMax, 30s":    func(o *redisstream.Options) { o.HoldMin = time.Minute },
		"OnError: there is no policy 9":          func(o *redisstream.Options) { o.OnError = 9 },
		"OnMalformed: there is no policy 9":      func(o *redisstream.Options) { o.OnMalformed = 9 },
		"OnRejected: there is no policy 2":       func(o *redisstream.Options) { o.OnRejected = 2 },
		"Gaps: there is no policy 9":             func(o *redisstream.Options) { o.Gaps = 9 },
		"StartFrom: the time is zero":            func(o *redisstream.Options) { o.StartFrom = redisstream.FromTime(time.Time{}) },
		"Types: name 1 is empty":                 func(o *redisstream.Options) { o.Types = []string{"a", ""} },
		"InstanceCount: -1 is negative":          func(o *redisstream.Options) { o.InstanceCount = -1 },
		"InstanceIndex: -1 is negative":          func(o *redisstream.Options) { o.InstanceIndex = index(-1) },
		"StrictPreflight: there is no Preflight": func(o *redisstream.Options) { o.StrictPreflight = true },
		"InstanceIndex: 3 is not below Instanc":  func(o *redisstream.Options) { o.InstanceIndex, o.InstanceCount = index(3), 3 },
	} {
		options := redisstream.Options{Consumer: "payout"}
		change(&options)
		_, err := redisstream.NewConsumer(client, redisstream.Topic("claims"), decodeClaim, &recorder{}, options)
		require.ErrorContains(t, err, "redisstream: Options."+field)
	}
	_, err := redisstream.NewConsumer(client, redisstream.Topic("claims"), decodeClaim, &recorder{},
		redisstream.Options{Consumer: "payout", Preflight: &preflight.Options{}})
	require.ErrorContains(t, err, "preflight: Options.Workflows: at least one is required")
	good := redisstream.Options{Consumer: "payout"}
	for _, row := range []struct {
		text    string
		client  redis.UniversalClient
		topic   string
		decode  func([]byte) (testkit.Claim, error)
		handler redisstream.Handler[testkit.Claim]
	}{
		{"the Redis client is nil", nil, "claims", decodeClaim, &recorder{}},
		{"the Redis client is nil", (*redis.Client)(nil), "claims", decodeClaim, &recorder{}},
		{"the topic is empty", client, "", decodeClaim, &recorder{}},
		{`the topic "{claims}" holds braces`, client, "{claims}", decodeClaim, &recorder{}},
		{"the decoder is nil", client, "claims", nil, &recorder{}},
		{"the handler is nil", client, "claims", decodeClaim, nil},
		{"the handler is nil", client, "claims", decodeClaim, claimHandler(nil)},
		{"the handler is nil", client, "claims", decodeClaim, (*restatestart.Starter[testkit.Claim])(nil)},
	} {
		_, err := redisstream.NewConsumer(row.client, redisstream.Topic(row.topic), row.decode, row.handler, good)
		require.ErrorContains(t, err, "redisstream: "+row.text)
	}
	consumer, err := redisstream.NewConsumer(client, redisstream.Topic("claims"), decodeClaim, &recorder{}, good)
	require.NoError(t, err)
	assert.Equal(t, redisstream.StateStarting, consumer.Status().State, "no I/O, and a status before Run")
	assert.Nil(t, consumer.Status().Preflight)
}
