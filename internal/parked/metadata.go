package parked

import (
	"slices"
	"strconv"
	"time"

	"github.com/redisevents/restatestart/internal/wire"
)

// The metadata of a parked entry follows its own fields, always these in this order. Their place distinguishes them from a
// producer's fields of the same names; and as most clients make a map of an entry in which the last of a name wins, the
// metadata wins there too.
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
	metaComplete  = "parked:whole" // 1, or 0 where the entry was trimmed before it was parked
)

var metaNames = [...]string{
	metaStream, metaPartition, metaEntry, metaReason, metaStatus, metaText, metaWorkflow, metaKey, metaTime, metaComplete,
}

// metadata renders the metadata of an entry but for metaComplete, which the script finds out.
func (p Parking) metadata(stream string, partition int) []Field {
	f := p.Failure
	return []Field{
		{metaStream, stream},
		{metaPartition, strconv.Itoa(partition)},
		{metaEntry, p.Entry.ID.String()},
		{metaReason, f.Reason},
		{metaStatus, strconv.Itoa(f.Status)},
		{metaText, f.Text},
		{metaWorkflow, f.Workflow},
		{metaKey, f.Key},
		{metaTime, wire.FormatTime(f.At)},
	}
}

// parse reads an entry of the parked stream. One without complete and valid metadata is foreign.
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
	entry := Entry{ID: id, Stream: meta[0].Value, Complete: meta[9].Value == "1", Fields: slices.Clip(fields[:first])}
	var errs [4]error
	entry.Partition, errs[0] = strconv.Atoi(meta[1].Value)
	entry.EntryID, errs[1] = wire.ParseID(meta[2].Value)
	entry.Failure = Failure{Reason: meta[3].Value, Text: meta[5].Value, Workflow: meta[6].Value, Key: meta[7].Value}
	entry.Failure.Status, errs[2] = strconv.Atoi(meta[4].Value)
	entry.Failure.At, errs[3] = time.Parse(wire.TimeLayout, meta[8].Value)
	entry.Failure.At = entry.Failure.At.UTC()
	if errs != [4]error{} {
		return foreign
	}
	return entry
}
