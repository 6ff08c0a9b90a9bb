package parked_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/telemetry"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/internal/wire"
)

func TestTheRecorderLogsAndCountsEvents(t *testing.T) {
	t.Parallel()
	var log testkit.Log
	recorded := testkit.Record()
	guard := telemetry.NewGuard(log.Logger())
	meter := guard.Meter(recorded.Meters, telemetry.ConsumerScope)
	recorder := parked.NewRecorder(meter, guard.Logger(), telemetry.ConsumerAttributes("claims", "payout", "dev:"))
	require.NoError(t, meter.Err)

	recorder.Begin(3)
	entry := parked.Entry{ID: wire.ID{Ms: 9}, Partition: 4, EntryID: wire.ID{Ms: 5}, Failure: parked.Failure{
		Reason: "rejected", Status: 400, Text: "400: no", Workflow: "Payout", Key: "c\n1",
	}}
	for _, event := range []parked.Event{parked.EventParked, parked.EventAlreadyParked, parked.EventReplayed, parked.EventParked, parked.EventDiscarded} {
		recorder.Record(t.Context(), event, entry)
	}
	const attributes = ` partition=4 entry=5-0 parked=9-0 reason=rejected status=400 workflow=Payout key="\"c\\n1\"" error="400: no"` + "\n"
	assert.Equal(t, 2, log.Count(`level=ERROR msg="entry parked"`+attributes))
	assert.Equal(t, 1, log.Count(`level=INFO msg="entry already parked"`+attributes))
	assert.Equal(t, 1, log.Count(`level=INFO msg="parked entry replayed"`+attributes))
	assert.Equal(t, 1, log.Count(`level=WARN msg="parked entry discarded"`+attributes))
	assert.Equal(t, 5, log.Count("\n"))
	assert.Equal(t, []string{
		"streams.parked{consumer=payout,event=discarded,key_prefix=dev:,partition=3,topic=claims} total 0",
		"streams.parked{consumer=payout,event=discarded,key_prefix=dev:,partition=4,topic=claims} total 1",
		"streams.parked{consumer=payout,event=parked,key_prefix=dev:,partition=3,topic=claims} total 0",
		"streams.parked{consumer=payout,event=parked,key_prefix=dev:,partition=4,topic=claims} total 2",
		"streams.parked{consumer=payout,event=replayed,key_prefix=dev:,partition=3,topic=claims} total 0",
		"streams.parked{consumer=payout,event=replayed,key_prefix=dev:,partition=4,topic=claims} total 1",
	}, recorded.AllMetrics(t))
}
