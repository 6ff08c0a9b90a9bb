package parked

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/redisevents/restatestart/internal/telemetry"
	"github.com/redisevents/restatestart/internal/text"
)

// Event is what happened to an entry, as the log words it.
type Event string

// The events of an entry.
const (
	EventParked        Event = "entry parked"
	EventAlreadyParked Event = "entry already parked"
	EventReplayed      Event = "parked entry replayed"
	EventDiscarded     Event = "parked entry discarded"
)

// Kind is the event as a metric's attribute, empty for one that is not counted.
func (e Event) Kind() string {
	switch e {
	case EventParked:
		return "parked"
	case EventReplayed:
		return "replayed"
	case EventDiscarded:
		return "discarded"
	default:
		return ""
	}
}

func (e Event) level() slog.Level {
	switch e {
	case EventParked:
		return slog.LevelError // somebody has to act
	case EventDiscarded:
		return slog.LevelWarn // a start that will never happen
	default:
		return slog.LevelInfo
	}
}

// Recorder logs and counts what happens to entries, for the consumer and for the operator's client alike. It is safe for
// concurrent use.
type Recorder struct {
	counter    telemetry.Counter
	log        *slog.Logger
	attributes []attribute.KeyValue

	mu         sync.Mutex
	partitions map[int]map[Event][]metric.AddOption
}

// NewRecorder returns a recorder. The attributes are those of every measurement: topic, consumer and perhaps key_prefix.
func NewRecorder(meter *telemetry.Meter, logger *slog.Logger, attributes []attribute.KeyValue) *Recorder {
	return &Recorder{
		counter: meter.Counter("streams.parked", "messages", "Messages that were parked, and parked ones that were replayed or discarded."),
		log:     logger, attributes: attributes, partitions: map[int]map[Event][]metric.AddOption{},
	}
}

// Begin begins the series of a partition at 0, unless they have begun.
func (r *Recorder) Begin(partition int) { r.series(partition) }

func (r *Recorder) series(partition int) map[Event][]metric.AddOption {
	r.mu.Lock()
	defer r.mu.Unlock()
	series := r.partitions[partition]
	if series == nil {
		series = map[Event][]metric.AddOption{}
		r.partitions[partition] = series
		for _, event := range [...]Event{EventParked, EventReplayed, EventDiscarded} {
			series[event] = telemetry.Adds(slices.Concat(r.attributes,
				[]attribute.KeyValue{attribute.Int("partition", partition), attribute.String("event", event.Kind())})...)
			r.counter.Add(context.Background(), 0, series[event]...)
		}
	}
	return series
}

// Record logs and counts one event of an entry.
func (r *Recorder) Record(ctx context.Context, event Event, entry Entry) {
	if event.Kind() != "" {
		r.counter.Add(context.Background(), 1, r.series(entry.Partition)[event]...) //nolint:contextcheck // no exemplars, as at the series' begin
	}
	r.log.LogAttrs(ctx, event.level(), string(event), slog.Int("partition", entry.Partition), slog.String("entry", entry.EntryID.String()),
		slog.String("parked", entry.ID.String()), slog.String("reason", entry.Failure.Reason), slog.Int("status", entry.Failure.Status),
		slog.String("workflow", text.QuoteName(entry.Failure.Workflow)), slog.String("key", text.QuoteName(entry.Failure.Key)),
		slog.String("error", entry.Failure.Text))
}
