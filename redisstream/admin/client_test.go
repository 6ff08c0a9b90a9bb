package admin_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/internal/wire"
	"github.com/redisevents/restatestart/redisstream/admin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	svc0      = "1b3a45ca-59c5-d080-8e1c-02429c2efc50"
	updatedAt = "2026-09-06T11:22:33.4440000+00:00"
	positions = "p:{claims}:payout"
	metadata  = "p:{claims}:payout:meta"
)

// env is a Redis double with an admin client of the consumer payout on the topic claims. What needs a real server, such as
// what was trimmed, is tested in internal/e2e.
type env struct {
	t      *testing.T
	server *miniredis.Miniredis
	redis  *redis.Client
	client *admin.Client
	log    testkit.Log
}

func newEnv(t *testing.T, options admin.Options) *env {
	t.Helper()
	e := &env{t: t, server: miniredis.RunT(t)}
	e.redis = redis.NewClient(&redis.Options{Addr: e.server.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = e.redis.Close() })
	options.Consumer, options.Logger = "payout", e.log.Logger()
	client, err := admin.New(e.redis, "claims", options)
	require.NoError(t, err)
	e.client = client
	return e
}

// add adds entries <from>-0 to <to>-0 to a partition.
func (e *env) add(partition, from, to int) {
	e.t.Helper()
	for n := from; n <= to; n++ {
		_, err := e.server.XAdd(fmt.Sprintf("s:{claims}:%d", partition), fmt.Sprintf("%d-0", n), []string{"b", "{}"})
		require.NoError(e.t, err)
	}
}

// store stores a position of partition 0, unless it is empty.
func (e *env) store(position string) {
	if position != "" {
		e.server.HSet(positions, "0", position)
	}
}

// stored is what is stored for partition 0.
func (e *env) stored() string { return e.server.HGet(positions, "0") }

// park parks an entry for each key, as a consumer does, and returns their ids in the parked stream.
func (e *env) park(keys ...string) []string {
	e.t.Helper()
	parkings := make([]parked.Parking, len(keys))
	for i, key := range keys {
		parkings[i] = parked.Parking{
			Entry:   wire.Entry{ID: wire.ID{Ms: uint64(i + 1)}, Body: `{"key":"` + key + `"}`, HasBody: true},
			Failure: parked.Failure{Reason: "rejected", Status: 400, Text: "400: no", Workflow: "Payout", Key: key, At: time.UnixMilli(20)},
		}
	}
	ids, err := parked.NewRedis(e.redis, wire.Keys{Topic: "claims"}, "payout").Park(context.Background(), 0, parkings)
	require.NoError(e.t, err)
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	return texts
}

func TestNewNamesTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "nowhere.invalid:1"})
	t.Cleanup(func() { _ = client.Close() })
	for text, row := range map[string]struct {
		client  redis.UniversalClient
		topic   string
		options admin.Options
	}{
		"the Redis client is nil":              {(*redis.Client)(nil), "claims", admin.Options{Consumer: "payout"}},
		"the topic is empty":                   {client, "", admin.Options{Consumer: "payout"}},
		`the topic "{claims}" holds braces`:    {client, "{claims}", admin.Options{Consumer: "payout"}},
		"Options.Consumer: a name is required": {client, "claims", admin.Options{}},
		`Options.Consumer: "x:meta" ends in`:   {client, "claims", admin.Options{Consumer: "x:meta"}},
		"Options.Partitions: -1 is negative":   {client, "claims", admin.Options{Consumer: "payout", Partitions: -1}},
	} {
		_, err := admin.New(row.client, row.topic, row.options)
		require.ErrorContains(t, err, "admin: "+text)
	}
}

func TestErrorsOfRedisNameWhatWasBeingDone(t *testing.T) {
	t.Parallel()
	e := newEnv(t, admin.Options{})
	require.NoError(t, e.server.Set(positions, "a string"))
	require.NoError(t, e.server.Set("parked:{claims}:payout", "a string"))
	ctx := t.Context()
	for doing, call := range map[string]func() error{
		"list positions of":                 func() error { _, err := e.client.Positions(ctx); return err },
		"preview a reset of partition 0 of": func() error { _, err := e.client.PreviewReset(ctx, 0, admin.ToEnd()); return err },
		"reset partition 0 of":              func() error { _, err := e.client.Reset(ctx, 0, admin.ToEnd()); return err },
		"the reset of partition 0 of":       func() error { _, err := e.client.CancelReset(ctx, 0); return err },
		"list parked entries of":            func() error { _, err := e.client.Parked(ctx, admin.ParkedPage{}); return err },
	} {
		err := call()
		require.ErrorContains(t, err, "admin: ")
		require.ErrorContains(t, err, doing+" consumer payout on topic claims: ")
		require.ErrorContains(t, err, "WRONGTYPE")
	}
	e.server.Close()
	_, err := e.client.PreviewReset(ctx, 0, admin.ToEnd())
	require.ErrorContains(t, err, "read topic meta m:{claims}: ")
}
