package restatestart_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/restatetest"
)

func TestS11MessagesOfOneKeyArePostedInStreamOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Script("a", restatetest.Delay(time.Second), restatetest.Delay(time.Millisecond))
		fake.Script("b", restatetest.Status(503), restatetest.Pass())
		starter := starterOn(t, fake, func(message *restatestart.Message[claim]) (restatestart.Start, error) {
			return restatestart.Start{Workflow: "Payout", Key: message.Value.Key, Input: message.ID}, nil
		}, restatestart.Options{})
		require.NoError(t, starter.Handle(t.Context(), batchOf("a", "b", "a", "b", "a", "c")))
		bodies := map[string][]string{}
		for _, request := range fake.Requests() {
			bodies[request.Key] = append(bodies[request.Key], string(request.Body))
		}
		assert.Equal(t, map[string][]string{
			"a": {`"1-0"`, `"3-0"`, `"5-0"`}, "b": {`"2-0"`, `"2-0"`, `"4-0"`}, "c": {`"6-0"`},
		}, bodies)
		for _, started := range fake.Starts() {
			assert.Equal(t, map[string]string{"a": `"1-0"`, "b": `"2-0"`, "c": `"6-0"`}[started.Key], string(started.Body))
		}
	})
}

func TestS11NothingOvertakesAFailedStartOfItsKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Script("a", restatetest.Status(503).Times(5))
		starter := starterOn(t, fake, func(message *restatestart.Message[claim]) (restatestart.Start, error) {
			start := restatestart.Start{Workflow: "Payout", Key: message.Value.Key, Input: message.ID}
			switch message.ID {
			case "4-0":
				start.Input = math.Inf(1) // cannot be encoded
			case "6-0":
				start.Workflow = "Other" // the same key of another workflow is another start
			}
			return start, nil
		}, restatestart.Options{})
		batch := batchOf("a", "b", "a", "x", "x", "x")
		blocked := blockedBy(t, starter.Handle(t.Context(), batch))
		assert.Equal(t, 2, blocked.Accepted)
		reasons := map[string]restatestart.Reason{}
		for _, failed := range blocked.Failed {
			reasons[failed.EntryID] = failed.Reason
		}
		assert.Equal(t, map[string]restatestart.Reason{
			"1-0": restatestart.ReasonServer, "3-0": restatestart.ReasonPredecessor,
			"4-0": restatestart.ReasonEncode, "5-0": restatestart.ReasonPredecessor,
		}, reasons)
		assert.Equal(t, 5, fake.Attempts("a"))
		fake.ExpectStarted(t, "Payout", "b")
		fake.ExpectStarted(t, "Other", "x")

		retried := blockedBy(t, starter.Handle(t.Context(), batch))
		require.Len(t, retried.Failed, 2)
		assert.Equal(t, "a", fake.Starts()[2].Key)
		assert.Equal(t, `"1-0"`, string(fake.Starts()[2].Body), "the first one's input is the one that runs")
	})
}
