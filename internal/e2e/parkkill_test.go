package e2e_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/payout"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// parkWorld is what the tests share: a Redis, and a Restate that refuses inputs of more than 1 KiB.
type parkWorld struct {
	redis   *servers.Redis
	restate *servers.Restate
	payouts *payout.Service
}

func newParkWorld(t *testing.T) *parkWorld {
	t.Helper()
	w := &parkWorld{
		redis:   servers.StartRedis(t, servers.RedisOptions{}),
		restate: servers.StartRestate(t, servers.RestateOptions{Env: []string{"RESTATE_INGRESS__REQUEST_SIZE_LIMIT=1 KiB"}}),
		payouts: payout.StartService(t),
	}
	register(t, w.restate, w.payouts)
	return w
}

// parkTopic is one topic in it, of one partition and four entries: a start, one that Restate refuses, one that cannot be
// decoded, and another start.
type parkTopic struct {
	*parkWorld
	*topic

	consumer                       *restatestart.Consumer[bet]
	good, bad, malformed, alsoGood string // ids
}

func (w *parkWorld) newTopic(t *testing.T, name string) *parkTopic {
	t.Helper()
	p := &parkTopic{parkWorld: w, topic: newTopic(t, w.redis.Client(), name, 1)}
	add := func(claim string) string {
		return p.addTo(t, 0, bet{ID: "b-" + claim, Amount: 1, Claim: p.claim(claim)})
	}
	p.good, p.bad = add("good"), add("bad")
	var err error
	p.malformed, err = p.client.XAdd(t.Context(), &redis.XAddArgs{
		Stream: p.Stream(0), Values: []string{"x", "unknown", "b", "{}", "parked:reason", "mine", "b", "{bad", "t", "BetSettled"},
	}).Result()
	require.NoError(t, err)
	p.alsoGood = add("also-good")
	// Another process, as an operator's tool is one. It lists only.
	p.consumer, err = restatestart.NewConsumer(connect(t, w.redis.Addr()), name, restatestart.JSON[bet], &handled{},
		restatestart.ConsumerOptions{Consumer: consumerName})
	require.NoError(t, err)
	return p
}

func (p *parkTopic) claim(name string) string { return p.Topic + "-" + name }

func (p *parkTopic) start(t *testing.T, parking parkingConfig) *serviceProcess {
	t.Helper()
	return startService(t, serviceConfig{Redis: p.redis.Addr(), Topic: p.Topic, Ingress: p.restate.Ingress(), Parking: &parking})
}

// killed starts a service that kills itself, and waits for that.
func (p *parkTopic) killed(t *testing.T, parking parkingConfig) {
	t.Helper()
	service := p.start(t, parking)
	_ = service.await(patience)
	require.NotNil(t, service.command.ProcessState, "it did not come to the step")
	status, _ := service.command.ProcessState.Sys().(syscall.WaitStatus)
	require.Equal(t, syscall.SIGKILL, status.Signal(), "it did not come to the step")
}

// parkedThere are the entries that are parked, by the ids they had.
func (p *parkTopic) parkedThere(t *testing.T) map[string]restatestart.ParkedEntry {
	t.Helper()
	list, err := p.consumer.Parked(t.Context(), restatestart.ParkedPage{})
	require.NoError(t, err)
	entries := make(map[string]restatestart.ParkedEntry, len(list))
	for _, entry := range list {
		require.NotContains(t, entries, entry.EntryID, "parked twice")
		entries[entry.EntryID] = entry
	}
	return entries
}

// everParked is how many entries were ever put into the parked stream.
func (p *parkTopic) everParked(t *testing.T) int64 {
	t.Helper()
	stream, err := p.client.XInfoStream(t.Context(), p.Parked(consumerName)).Result()
	require.NoError(t, err)
	return stream.EntriesAdded
}

// finish runs a service until the position is at the end, and sees to it that each of the claims ran once, and that two
// entries were ever parked, once each, of which these are there still.
func (p *parkTopic) finish(t *testing.T, ran []string, parked ...string) {
	t.Helper()
	last := p.addTo(t, 0, bet{ID: "b-last", Amount: 1, Claim: p.claim("last")})
	ran = append(ran, "last")
	service := p.start(t, parkingConfig{})
	require.Eventually(t, func() bool {
		position, err := p.position(t.Context(), 0)
		return err == nil && position == last
	}, patience, interval)
	require.NoError(t, service.command.Process.Signal(syscall.SIGTERM))
	require.Zero(t, service.await(patience))

	there := p.parkedThere(t)
	assert.Len(t, there, len(parked))
	for _, id := range parked {
		assert.Contains(t, there, id)
	}
	assert.Equal(t, int64(2), p.everParked(t), "each once")
	for _, name := range ran {
		require.Eventually(t, func() bool { return p.payouts.Executions()[p.claim(name)] > 0 }, patience, interval, name)
	}
	runs := map[string]int{}
	for _, name := range []string{"good", "bad", "also-good", "last"} {
		if n := p.payouts.Executions()[p.claim(name)]; n > 0 {
			runs[name] = n
		}
	}
	once := map[string]int{}
	for _, name := range ran {
		once[name] = 1
	}
	assert.Equal(t, once, runs)
}

// The service is killed between every two things that it does to park: nothing is lost, and nothing is parked twice.
func TestKillsWhileEntriesAreParked(t *testing.T) {
	t.Parallel()
	w := newParkWorld(t)
	began := time.Now()
	kills := map[string]killing{
		"before the malformed one is parked":                      {What: stepPark},
		"after that, before the starts are made":                  {What: stepPark, After: true},
		"after the first start":                                   {What: stepPost, After: true},
		"after all of them, before what is refused comes again":   {What: stepPost, Nth: 2, After: true},
		"before what was refused twice is parked":                 {What: stepPark, Nth: 1},
		"after that, before anything is known of the position":    {What: stepPark, Nth: 1, After: true},
		"before the position is written":                          {What: stepPosition},
		"after the position was written, before its answer comes": {What: stepPosition, After: true},
	}
	t.Cleanup(func() {
		t.Logf("%d kills while 2 of 4 entries were parked, in %.1f s: each parked once, each start made once", len(kills), time.Since(began).Seconds())
	})
	topics := 0
	for name, kill := range kills {
		topics++
		topic := fmt.Sprintf("parking-%d", topics)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := w.newTopic(t, topic)
			p.killed(t, parkingConfig{Kill: kill})
			position, err := p.position(t.Context(), 0)
			require.NoError(t, err)
			if kill.What == stepPosition && kill.After {
				assert.Equal(t, p.alsoGood, position)
			} else {
				assert.Empty(t, position, "it moves last")
			}
			p.finish(t, []string{"good", "also-good"}, p.bad, p.malformed)

			there := p.parkedThere(t)
			bad, malformed := there[p.bad], there[p.malformed]
			assert.Equal(t, restatestart.ReasonRejected, bad.Reason)
			assert.Equal(t, 413, bad.Status)
			assert.Equal(t, []string{payout.Workflow, p.claim("bad")}, []string{bad.Workflow, bad.Key})
			assert.Equal(t, restatestart.ReasonMalformed, malformed.Reason)
			assert.Equal(t, []restatestart.EntryField{
				{Name: "x", Value: "unknown"},
				{Name: "b", Value: "{}"},
				{Name: "parked:reason", Value: "mine"},
				{Name: "b", Value: "{bad"},
				{Name: "t", Value: "BetSettled"},
			}, malformed.Fields)
			assert.Equal(t, []string{p.Stream(0), p.Stream(0)}, []string{bad.Stream, malformed.Stream})
		})
	}
}

// parkedBeforeItsPosition is the hardest place to begin from: both entries are parked, and the position knows nothing of
// that, so that they come again. It returns their ids in the parked stream.
func (p *parkTopic) parkedBeforeItsPosition(t *testing.T) (bad, malformed string) {
	t.Helper()
	p.killed(t, parkingConfig{Kill: killing{What: stepPosition}})
	there := p.parkedThere(t)
	require.Len(t, there, 2)
	return there[p.bad].ID, there[p.malformed].ID
}

// A service with a mended Map is killed between every two things that a replay does. The old one, which comes to the same
// entry again afterwards, does not park it a second time.
func TestKillsWhileAnEntryIsReplayed(t *testing.T) {
	t.Parallel()
	w := newParkWorld(t)
	began := time.Now()
	kills := map[string]killing{
		"before it is sent": {What: stepPost},
		"after Restate accepted it, before it is taken out":        {What: stepPost, After: true},
		"after the answer was read, before it is taken out":        {What: stepRemove},
		"after it was taken out, before the answer of Redis comes": {What: stepRemove, After: true},
	}
	t.Cleanup(func() {
		t.Logf("%d kills while an entry was replayed, in %.1f s: each ran once", len(kills), time.Since(began).Seconds())
	})
	topics := 0
	for name, kill := range kills {
		topics++
		topic := fmt.Sprintf("replaying-%d", topics)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := w.newTopic(t, topic)
			bad, _ := p.parkedBeforeItsPosition(t)
			p.killed(t, parkingConfig{Mended: true, Replay: []string{bad}, Kill: kill})

			again := p.start(t, parkingConfig{Mended: true, Replay: []string{bad}})
			code := again.await(patience)
			if kill.What == stepRemove && kill.After {
				assert.Equal(t, 1, code, "it is not parked any more, and that is said")
			} else {
				assert.Zero(t, code)
			}
			p.finish(t, []string{"good", "bad", "also-good"}, p.malformed)
		})
	}
}

func TestKillsWhileAnEntryIsDiscarded(t *testing.T) {
	t.Parallel()
	w := newParkWorld(t)
	began := time.Now()
	kills := map[string]killing{
		"before the first is taken out": {What: stepRemove},
		"between the two":               {What: stepRemove, After: true},
		"after both, before the answer": {What: stepRemove, Nth: 1, After: true},
	}
	t.Cleanup(func() {
		t.Logf("%d kills while 2 entries were discarded, in %.1f s: none came back", len(kills), time.Since(began).Seconds())
	})
	topics := 0
	for name, kill := range kills {
		topics++
		topic := fmt.Sprintf("discarding-%d", topics)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := w.newTopic(t, topic)
			bad, malformed := p.parkedBeforeItsPosition(t)
			p.killed(t, parkingConfig{Discard: []string{bad, malformed}, Kill: kill})
			code := p.start(t, parkingConfig{Discard: []string{bad, malformed}}).await(patience)
			if kill.After {
				assert.Equal(t, 1, code, "one of them is not parked any more, and that is said")
			} else {
				assert.Zero(t, code)
			}
			p.finish(t, []string{"good", "also-good"})
		})
	}
}
