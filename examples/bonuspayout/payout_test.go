package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/redisstream"
	"github.com/redisevents/restatestart/restatetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// message returns a message as the consumer delivers it.
func message(id string, bet BetSettled) restatestart.Message[BetSettled] {
	return restatestart.Message[BetSettled]{ID: id, Stream: "s:{bets_settled}:0", Type: "BetSettled", Value: bet}
}

func TestABetWithAClaimBecomesAPayout(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		bet  BetSettled
		keep bool
		want restatestart.Start
	}{
		"with a claim": {
			bet:  BetSettled{BetID: "b-1", ClaimID: "c-1", AmountCents: 1250},
			keep: true,
			want: restatestart.Start{Workflow: "BonusPayout", Key: "c-1", Input: PayoutInput{BetID: "b-1", AmountCents: 1250}},
		},
		"an amount beyond what a float holds": {
			bet:  BetSettled{BetID: "b-2", ClaimID: "c-2", AmountCents: 1<<53 + 1},
			keep: true,
			want: restatestart.Start{Workflow: "BonusPayout", Key: "c-2", Input: PayoutInput{BetID: "b-2", AmountCents: 9007199254740993}},
		},
		"without a claim": {bet: BetSettled{BetID: "b-3", AmountCents: 500}},
		"an empty body":   {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := message("1-0", test.bet)
			require.Equal(t, test.keep, hasClaim(&m))
			if !test.keep {
				return
			}
			start, err := toPayout(&m)
			require.NoError(t, err)
			assert.Equal(t, test.want, start)
		})
	}
}

// starterTo returns the service's starter, which posts to an in-memory server.
func starterTo(t *testing.T, server *restatetest.Server) *restatestart.Starter[BetSettled] {
	t.Helper()
	starter, err := newStarter(restatestart.Options{Ingress: server.URL(), HTTPClient: server.Client()})
	require.NoError(t, err)
	return starter
}

func TestABatchStartsItsClaims(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t, restatetest.WithWorkflow("BonusPayout"))

	require.NoError(t, starterTo(t, server).Handle(t.Context(), []restatestart.Message[BetSettled]{
		message("1-0", BetSettled{BetID: "b-1", ClaimID: "c-1", AmountCents: 1250}),
		message("1-1", BetSettled{BetID: "b-2", AmountCents: 500}),
		message("2-0", BetSettled{BetID: "b-3", ClaimID: "c/3", AmountCents: 75}),
	}))

	server.ExpectStarted(t, "BonusPayout", "c-1", "c/3")
	for _, started := range server.Starts() {
		assert.Equal(t, "run", started.Handler)
		if started.Key == "c-1" {
			assert.JSONEq(t, `{"betId":"b-1","amountCents":1250}`, string(started.Body))
		}
	}
}

func TestABatchWithoutClaimsSendsNoRequest(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	require.NoError(t, starterTo(t, server).Handle(t.Context(), []restatestart.Message[BetSettled]{
		message("1-0", BetSettled{BetID: "b-1", AmountCents: 500}),
	}))
	assert.Empty(t, server.Requests())
}

func TestABodyIsReadAsItsProducerWritesIt(t *testing.T) {
	t.Parallel()
	m, err := redisstream.NewMessage("s:{bets_settled}:0", 0, redis.XMessage{ID: "1-0", Values: map[string]any{
		"b": `{"betId":"b-1","claimId":"c-1","amountCents":9007199254740993}`, "t": "BetSettled", "k": "account-7",
	}}, redisstream.JSON[BetSettled])
	require.NoError(t, err)
	assert.Equal(t, BetSettled{BetID: "b-1", ClaimID: "c-1", AmountCents: 9007199254740993}, m.Value)
}

// Time is virtual in these tests: the waits between attempts take none.

func TestAShortOutageIsRetriedUntilItEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := restatetest.New(t, restatetest.WithWorkflow("BonusPayout"))
		server.Down()
		time.AfterFunc(time.Second, server.Up)

		begin := time.Now()
		require.NoError(t, starterTo(t, server).Handle(t.Context(), []restatestart.Message[BetSettled]{
			message("1-0", BetSettled{BetID: "b-1", ClaimID: "c-1", AmountCents: 1250}),
		}))
		assert.GreaterOrEqual(t, time.Since(begin), time.Second)
		server.ExpectStarted(t, "BonusPayout", "c-1")
	})
}

// The BlockedError holds the partition: the consumer redelivers the batch until Handle succeeds.
func TestALongOutageBlocksAndRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := restatetest.New(t, restatetest.WithWorkflow("BonusPayout"))
		starter := starterTo(t, server)
		batch := []restatestart.Message[BetSettled]{
			message("1-0", BetSettled{BetID: "b-1", ClaimID: "c-1", AmountCents: 1250}),
			message("1-1", BetSettled{BetID: "b-2", AmountCents: 500}),
		}

		server.Down()
		var blocked *restatestart.BlockedError
		require.ErrorAs(t, starter.Handle(t.Context(), batch), &blocked)
		require.Len(t, blocked.Failed, 1)
		failed := blocked.Failed[0]
		assert.Equal(t, "BonusPayout/c-1 of 1-0", failed.Workflow+"/"+failed.Key+" of "+failed.EntryID)
		assert.Equal(t, restatestart.ReasonUnreachable, failed.Reason)
		assert.Equal(t, restatestart.DefaultMaxAttempts, failed.Attempts)
		assert.False(t, blocked.ShuttingDown)

		server.Up()
		require.NoError(t, starter.Handle(t.Context(), batch))
		server.ExpectStarted(t, "BonusPayout", "c-1")
	})
}

func TestALostAnswerPaysOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := restatetest.New(t, restatetest.WithWorkflow("BonusPayout"))
		server.Script("c-1", restatetest.DropAfterAccept())

		require.NoError(t, starterTo(t, server).Handle(t.Context(), []restatestart.Message[BetSettled]{
			message("1-0", BetSettled{BetID: "b-1", ClaimID: "c-1", AmountCents: 1250}),
		}))
		assert.Equal(t, 2, server.Attempts("c-1"))
		assert.Equal(t, 1, server.Duplicates())
		assert.Len(t, server.Starts(), 1)
	})
}
