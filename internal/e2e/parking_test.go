package e2e_test

import (
	"fmt"
	"log/slog"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/kit"
	"github.com/redisevents/restatestart/internal/e2e/payout"
	"github.com/redisevents/restatestart/internal/e2e/servers"
	"github.com/redisevents/restatestart/redisstream"
	"github.com/redisevents/restatestart/redisstream/admin"
)

// parkedEntries lists what is parked.
func parkedEntries(t *testing.T, operator *admin.Client) []admin.ParkedEntry {
	t.Helper()
	const all = 10_000
	list, err := operator.Parked(t.Context(), admin.ParkedPage{Limit: all})
	require.NoError(t, err)
	return list
}

// Nothing that is parked is lost with the server, and nothing is parked twice when an answer is lost.
func TestKillsOfRedisWhileEntriesAreParked(t *testing.T) {
	t.Parallel()
	server, bets := newBets(t, 2, servers.RedisOptions{})
	bets.Client = connect(t, server)
	const entries, kills = 2000, 4
	seen := &handled{}
	run(t, connect(t, server), bets, seen, redisstream.Options{
		BatchSize: 5, OnMalformed: redisstream.MalformedPark, HoldMin: 20 * time.Millisecond, HoldMax: 100 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	})
	parked := []int64{}
	for kill := range kills {
		pipeline := bets.Client.Pipeline()
		for i := range entries / kills {
			body := fmt.Sprintf("{bad %d", kill*entries/kills+i)
			pipeline.XAdd(t.Context(), &redis.XAddArgs{Stream: bets.Stream(i % 2), Values: []string{"b", body}})
		}
		_, err := pipeline.Exec(t.Context())
		require.NoError(t, err)
		kit.Sleep(t.Context(), 20*time.Millisecond) // into the middle of them
		require.NoError(t, server.Kill())
		require.NoError(t, server.Restart(t.Context()))
		parked = append(parked, server.Client().XLen(t.Context(), bets.Parked(kit.ConsumerName)).Val())
	}
	bets.AwaitEnd(t)
	list, bodies := parkedEntries(t, newOperator(t, bets, bets.Client)), map[string]int{}
	for _, entry := range list {
		body, _ := entry.Body()
		bodies[string(body)]++
	}
	assert.Len(t, list, entries)
	assert.Len(t, bodies, entries)
	stream, err := bets.Client.XInfoStream(t.Context(), bets.Parked(kit.ConsumerName)).Result()
	require.NoError(t, err)
	assert.EqualValues(t, entries, stream.EntriesAdded)
	assert.Empty(t, seen.entries())
	t.Logf("%d entries parked over %d kills of redis-server, each once; %v after the kills", entries, kills, parked)
}

// parkingEnv is a Redis, and a Restate that refuses inputs of more than 1 KiB.
type parkingEnv struct {
	redis   *servers.Redis
	restate *servers.Restate
	payouts *payout.Service
}

// parkingTopic is one topic in it, of one partition and four entries: a start, one that Restate refuses, one that cannot be
// decoded, and another start.
type parkingTopic struct {
	*parkingEnv
	*kit.Topic

	good, bad, malformed, alsoGood string // ids
}

func (e *parkingEnv) newTopic(t *testing.T, name string) *parkingTopic {
	t.Helper()
	p := &parkingTopic{parkingEnv: e, Topic: kit.NewTopic(t, e.redis.Client(), name, 1)}
	p.good, p.bad = p.add(t, "good"), p.add(t, "bad")
	var err error
	p.malformed, err = p.Client.XAdd(t.Context(), &redis.XAddArgs{
		Stream: p.Stream(0), Values: []string{"x", "unknown", "b", "{}", "parked:reason", "mine", "b", "{bad", "t", "BetSettled"},
	}).Result()
	require.NoError(t, err)
	p.alsoGood = p.add(t, "also-good")
	return p
}

func (p *parkingTopic) add(t *testing.T, claim string) string {
	t.Helper()
	return p.Add(t, 0, kit.Bet{ID: "b-" + claim, Amount: 1, Claim: p.claim(claim)})
}

func (p *parkingTopic) claim(name string) string { return p.Topic.Topic + "-" + name }

func (p *parkingTopic) start(t *testing.T, config serviceConfig) *kit.Process {
	t.Helper()
	config.Redis, config.Topic, config.Ingress, config.Parks = p.redis.Addr(), p.Topic.Topic, p.restate.Ingress(), true
	return startService(t, config)
}

// killed starts a service that kills itself, and waits for that.
func (p *parkingTopic) killed(t *testing.T, config serviceConfig) {
	t.Helper()
	service := p.start(t, config)
	require.True(t, service.Await(kit.Patience), "it did not reach the step")
	require.Equal(t, syscall.SIGKILL.String(), service.Ending(), "it did not reach the step")
}

// parked returns the parked entries by the ids they had.
func (p *parkingTopic) parked(t *testing.T) map[string]admin.ParkedEntry {
	t.Helper()
	entries := map[string]admin.ParkedEntry{}
	for _, entry := range parkedEntries(t, newOperator(t, p.Topic, p.Client)) {
		require.NotContains(t, entries, entry.EntryID, "parked twice")
		entries[entry.EntryID] = entry
	}
	return entries
}

// finish runs a service until the position is at the end, and asserts that each of the claims ran once, and that two entries were
// parked in all, of which these are still there.
func (p *parkingTopic) finish(t *testing.T, ran []string, parked ...string) {
	t.Helper()
	last := p.add(t, "last")
	service := p.start(t, serviceConfig{})
	p.AwaitPosition(t, 0, last)
	terminate(t, service, kit.Patience)
	assert.Len(t, p.parked(t), len(parked))
	for _, id := range parked {
		assert.Contains(t, p.parked(t), id)
	}
	stream, err := p.Client.XInfoStream(t.Context(), p.Parked(kit.ConsumerName)).Result()
	require.NoError(t, err)
	assert.EqualValues(t, 2, stream.EntriesAdded, "each was parked once")
	ran = append(ran, "last")
	for _, name := range ran {
		kit.Await(t, func() bool { return p.payouts.Executions()[p.claim(name)] > 0 }, name)
	}
	for _, name := range []string{"good", "bad", "also-good", "last"} {
		want := 0
		if slices.Contains(ran, name) {
			want = 1
		}
		assert.Equal(t, want, p.payouts.Executions()[p.claim(name)], name)
	}
}

// A service is killed between every two steps of parking, replaying and discarding: nothing is lost, nothing is parked twice and no
// start is made twice.
func TestKillsBetweenTheStepsOfParking(t *testing.T) {
	t.Parallel()
	env := &parkingEnv{
		redis:   servers.StartRedis(t, servers.RedisOptions{}),
		restate: servers.StartRestate(t, servers.RestateOptions{Env: []string{"RESTATE_INGRESS__REQUEST_SIZE_LIMIT=1 KiB"}}),
		payouts: payout.StartService(t, ""),
	}
	register(t, env.restate, env.payouts)
	began, topics := time.Now(), 0
	t.Cleanup(func() { t.Logf("%d kills, in %.1f s", topics, time.Since(began).Seconds()) })
	each := func(kills map[string]killing, test func(t *testing.T, p *parkingTopic, kill killing)) {
		for name, kill := range kills {
			topics++
			topic := fmt.Sprintf("parking-%d", topics)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, env.newTopic(t, topic), kill)
			})
		}
	}

	each(map[string]killing{
		"before the malformed entry is parked":                {Step: stepPark},
		"after that, before the starts are posted":            {Step: stepPark, After: true},
		"after the first start":                               {Step: stepPost, After: true},
		"after all starts, before the refused one is retried": {Step: stepPost, Nth: 2, After: true},
		"before the start that was refused twice is parked":   {Step: stepPark, Nth: 1},
		"after that, before the position is written":          {Step: stepPark, Nth: 1, After: true},
		"before the position is written":                      {Step: stepPosition},
		"after the position is written, before its answer":    {Step: stepPosition, After: true},
	}, func(t *testing.T, p *parkingTopic, kill killing) {
		p.killed(t, serviceConfig{Kill: kill})
		position, err := p.Position(t.Context(), 0)
		require.NoError(t, err)
		if kill.Step == stepPosition && kill.After {
			assert.Equal(t, p.alsoGood, position)
		} else {
			assert.Empty(t, position, "it moves last")
		}
		p.finish(t, []string{"good", "also-good"}, p.bad, p.malformed)
		parked := p.parked(t)
		bad, malformed := parked[p.bad], parked[p.malformed]
		assert.Equal(t, []any{restatestart.ReasonRejected, 413, payout.Workflow, p.claim("bad"), p.Stream(0)},
			[]any{bad.Reason, bad.Status, bad.Workflow, bad.Key, bad.Stream})
		assert.Equal(t, []any{restatestart.ReasonMalformed, p.Stream(0)}, []any{malformed.Reason, malformed.Stream})
		assert.Equal(t, []admin.Field{
			{Name: "x", Value: "unknown"},
			{Name: "b", Value: "{}"},
			{Name: "parked:reason", Value: "mine"},
			{Name: "b", Value: "{bad"},
			{Name: "t", Value: "BetSettled"},
		}, malformed.Fields)
	})

	// The hardest place to begin from: both entries are parked, and the position is before them, so that they are redelivered.
	parkBoth := func(t *testing.T, p *parkingTopic) (bad, malformed string) {
		t.Helper()
		p.killed(t, serviceConfig{Kill: killing{Step: stepPosition}})
		parked := p.parked(t)
		require.Len(t, parked, 2)
		return parked[p.bad].ID, parked[p.malformed].ID
	}
	// repeated is what the same replay or discard ends with once more.
	repeated := func(t *testing.T, p *parkingTopic, config serviceConfig, removed bool) {
		t.Helper()
		service := p.start(t, config)
		require.True(t, service.Await(kit.Patience))
		if removed {
			assert.Equal(t, "exit code 1", service.Ending(), "an entry is not parked any more, which is an error")
		} else {
			assert.Equal(t, "exit code 0", service.Ending())
		}
	}
	each(map[string]killing{
		"before a replay is posted":                            {Step: stepPost},
		"after Restate accepted a replay":                      {Step: stepPost, After: true},
		"before a replayed entry is removed":                   {Step: stepRemove},
		"after a replayed entry is removed, before the answer": {Step: stepRemove, After: true},
	}, func(t *testing.T, p *parkingTopic, kill killing) {
		bad, _ := parkBoth(t, p)
		config := serviceConfig{Fixed: true, Replay: []string{bad}, Kill: kill}
		p.killed(t, config)
		config.Kill = killing{}
		repeated(t, p, config, kill.Step == stepRemove && kill.After)
		p.finish(t, []string{"good", "bad", "also-good"}, p.malformed)
	})
	each(map[string]killing{
		"before the first of two is discarded":        {Step: stepRemove},
		"between two that are discarded":              {Step: stepRemove, After: true},
		"after both are discarded, before the answer": {Step: stepRemove, Nth: 1, After: true},
	}, func(t *testing.T, p *parkingTopic, kill killing) {
		bad, malformed := parkBoth(t, p)
		config := serviceConfig{Discard: []string{bad, malformed}, Kill: kill}
		p.killed(t, config)
		config.Kill = killing{}
		repeated(t, p, config, kill.After)
		p.finish(t, []string{"good", "also-good"})
	})
}
