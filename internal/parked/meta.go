package parked

import (
	"slices"
	"strconv"
	"time"

	"github.com/redisevents/restatestart/internal/wire"
)

// What is known about a parked entry stands behind its own fields, always these in this order. They are told from a
// producer's by their place, whatever the producer's are called; and most clients make a map of an entry in which the
// last of a name wins, so that there too none of these is ever overwritten.
const (
	metaStream    = "parked:stream"
	metaPartition = "parked:partition"
	metaEntry     = "parked:entry"
	metaReason    = "parked:reason"
	metaStatus    = "parked:status"
	metaText      = "parked:text"
	metaWorkflow  = "parked:workflow"
	metaKey       = "parked:key"
	metaTime      = "parked:time"
	metaWhole     = "parked:whole" // 1, or 0 where the entry was trimmed before it was parked
)

var metaNames = [...]string{
	metaStream, metaPartition, metaEntry, metaReason, metaStatus, metaText, metaWorkflow, metaKey, metaTime, metaWhole,
}

// meta renders what is known about an entry, all but the last field, which only the store can tell.
func (f Failure) meta(stream string, partition int, id wire.ID) []Field {
	return []Field{
		{metaStream, stream},
		{metaPartition, strconv.Itoa(partition)},
		{metaEntry, id.String()},
		{metaReason, f.Reason},
		{metaStatus, strconv.Itoa(f.Status)},
		{metaText, f.Text},
		{metaWorkflow, f.Workflow},
		{metaKey, f.Key},
		{metaTime, wire.FormatTime(f.At)},
	}
}

// parse reads an entry of the parked stream. One that is not of this package's making is foreign.
func parse(id wire.ID, fields []Field) Entry {
	foreign := Entry{ID: id, Foreign: true, Fields: fields}
	first := len(fields) - len(metaNames)
	if first < 0 {
		return foreign
	}
	meta := fields[first:]
	for i, name := range metaNames {
		if meta[i].Name != name {
			return foreign
		}
	}
	entry := Entry{ID: id, Stream: meta[0].Value, Whole: meta[9].Value == "1", Fields: slices.Clip(fields[:first])}
	var errs [4]error
	entry.Partition, errs[0] = strconv.Atoi(meta[1].Value)
	entry.EntryID, errs[1] = wire.ParseID(meta[2].Value)
	entry.Failure = Failure{Reason: meta[3].Value, Text: meta[5].Value, Workflow: meta[6].Value, Key: meta[7].Value}
	entry.Failure.Status, errs[2] = strconv.Atoi(meta[4].Value)
	entry.Failure.At, errs[3] = time.Parse(wire.TimeLayout, meta[8].Value)
	entry.Failure.At = entry.Failure.At.UTC()
	for _, err := range errs {
		if err != nil {
			return foreign
		}
	}
	return entry
}
