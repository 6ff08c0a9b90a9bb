package stream

import (
	"errors"
	"sync"
	"time"

	"github.com/redisevents/restatestart/internal/wire"
)

// Causes of a hold in this package. Verdicts have causes of their own.
const (
	CauseRead      = "read"
	CausePositions = "positions"
	CauseGap       = "gap"
)

// State is what a consumer or one of its partitions is doing. A blocked partition is alive: it holds its position and
// retries.
type State string

// The states.
const (
	StateStarting State = "starting" // nothing has been read yet
	StateRunning  State = "running"  // there are messages to process
	StateIdle     State = "idle"     // every message has been processed
	StateBlocked  State = "blocked"  // something holds it, and it retries
	StateStopped  State = "stopped"  // it does not run
)

// Blocked is what holds a partition.
type Blocked struct {
	Since    time.Time
	Attempts int
	Next     time.Time
	Cause    string
	Err      error
	Detail   any
}

// again is the same block after another attempt, or the first of another cause.
func (b *Blocked) again(cause string, err error, wait time.Duration) *Blocked {
	now := time.Now()
	next := Blocked{Since: now, Attempts: 1, Next: now.Add(wait), Cause: cause, Err: err}
	if b != nil && b.Cause == cause {
		next.Since, next.Attempts = b.Since, b.Attempts+1
	}
	return &next
}

// Status is a snapshot of a partition.
type Status struct {
	Partition int
	Stream    string
	State     State
	Position  wire.ID
	Blocked   *Blocked // nil when nothing holds it
	Err       error    // why it stopped
	Lag       int64    // entries behind the position; meaningful when LagKnown
	LagKnown  bool
	Length    int64     // entries in the stream; meaningful when Sampled
	Sampled   bool      // the last sample of the stream's tail worked
	Oldest    time.Time // when the oldest entry that is read and not processed was added; zero when there is none
	Read      bool      // a read has worked
	Missing   bool      // there is no stream

	// Entries in this run.
	Processed int64 // that the position moved past
	Delivered int64 // of those, delivered
	Skipped   int64 // of those, given up on
	Parked    int64 // of those, parked

	Gaps    int64          // reported in this run
	LastGap *Gap           // the last of them
	TrimIn  *time.Duration // until trimming reaches the position; nil when the position moves, or it is unknown
}

// status is where a partition's goroutines record what they do.
type status struct {
	partition int
	stream    string

	mu         sync.Mutex
	position   wire.ID
	read       bool      // a read has worked
	behind     bool      // the last read returned as much as requested: there may be more
	waiting    []wire.ID // first entry of each batch that is read and not processed
	delivering bool
	held       *Blocked // what holds the worker
	unread     *Blocked // what holds the reader
	stopped    bool
	err        error
	counts     counts
	lag        lag
	missing    bool
	length     int64
	sampleOK   bool // the last one
	gaps       int64
	lastGap    *Gap
	trimIn     *time.Duration
}

// counts are entries in this run: see Status.
type counts struct{ processed, delivered, skipped, parked int64 }

func (s *status) locked(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *status) begin(start wire.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.position, s.waiting, s.held, s.lag, s.trimIn = start, nil, nil, lag{}, nil
	s.behind = s.read // after a reset, unknown until the next read
	s.stopped, s.err = false, nil
}

func (s *status) at() wire.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.position
}

func (s *status) readWorked(pages []Page, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read, s.behind, s.unread = true, full, nil
	for _, page := range pages {
		if len(page.Entries) > 0 {
			s.waiting = append(s.waiting, page.Entries[0].ID)
		} else {
			s.waiting = append(s.waiting, page.Last)
		}
	}
}

func (s *status) readFailed(err error, wait time.Duration) {
	s.locked(func() { s.unread = s.unread.again(CauseRead, err, wait) })
}

// positionsFailed records that positions cannot be loaded or written, which holds the worker.
func (s *status) positionsFailed(err error, wait time.Duration) {
	s.locked(func() { s.held = s.held.again(CausePositions, err, wait) })
}

func (s *status) hold(blocked Blocked) { s.locked(func() { s.held = &blocked }) }
func (s *status) clear()               { s.locked(func() { s.held = nil }) }

func (s *status) deliver()   { s.locked(func() { s.delivering = true }) }
func (s *status) delivered() { s.locked(func() { s.delivering = false }) }

func (s *status) isDelivering() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.delivering
}

// gaveUp counts entries that were not processed.
func (s *status) gaveUp(skipped, parked int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.skipped += int64(skipped)
	s.counts.parked += int64(parked)
}

func (s *status) advance(page Page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.position, s.trimIn = page.Last, nil
	s.waiting = s.waiting[1:]
	s.counts.processed += int64(page.Read)
	s.counts.delivered += int64(len(page.Entries))
}

// gap records a reported gap, and updates the one that holds the partition, if one does.
func (s *status) gap(gap Gap, standing *Gap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gaps++
	s.lastGap = &gap
	if s.held != nil && s.held.Cause == CauseGap && standing != nil {
		held := *s.held
		held.Err, held.Detail = errors.New(standing.String()), *standing
		s.held = &held
	}
}

// sampled takes a sample of the stream. If the position has moved since the status before it, the two do not belong
// together, and the lag stays as it was.
func (s *status) sampled(tail Tail, before Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missing, s.length, s.sampleOK = !tail.Exists, tail.Length, true
	if s.position == before.Position {
		s.lag.sampled(tail, s.position, s.counts.processed)
	} else {
		s.lag.moved(tail)
	}
}

// sampleFailed discards the last sample, which is outdated.
func (s *status) sampleFailed() { s.locked(func() { s.sampleOK, s.trimIn = false, nil }) }

// setTrimIn sets when trimming reaches the position, if that has not moved and the entries behind it are counted.
func (s *status) setTrimIn(position wire.ID, estimate func(behind int64) *time.Duration) *time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trimIn = nil
	if behind, known := s.lag.behind(s.counts.processed); known && s.position == position {
		s.trimIn = estimate(behind)
	}
	return s.trimIn
}

func (s *status) stop(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.stopped, s.err = true, err
	}
}

func (s *status) snapshot() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	snapshot := Status{
		Partition: s.partition, Stream: s.stream, Position: s.position, Err: s.err, Blocked: s.held, Read: s.read, Missing: s.missing,
		Processed: s.counts.processed, Delivered: s.counts.delivered, Skipped: s.counts.skipped, Parked: s.counts.parked,
		Length: s.length, Sampled: s.sampleOK, Gaps: s.gaps, LastGap: s.lastGap, TrimIn: s.trimIn,
	}
	snapshot.Lag, snapshot.LagKnown = s.lag.behind(s.counts.processed)
	snapshot.LagKnown = snapshot.LagKnown && s.sampleOK
	switch {
	case len(s.waiting) > 0:
		snapshot.Oldest = s.waiting[0].Time()
	case s.behind && !s.position.IsZero():
		snapshot.Oldest = s.position.Time() // the next entries are hardly younger
	}
	if snapshot.Blocked == nil {
		snapshot.Blocked = s.unread
	}
	switch {
	case s.stopped:
		snapshot.State = StateStopped
	case snapshot.Blocked != nil:
		snapshot.State = StateBlocked
	case len(s.waiting) > 0, s.behind:
		snapshot.State = StateRunning
	case s.read:
		snapshot.State = StateIdle
	default:
		snapshot.State = StateStarting
	}
	return snapshot
}
