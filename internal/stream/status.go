package stream

import (
	"errors"
	"sync"
	"time"

	"github.com/redisevents/restatestart/internal/wire"
)

// Causes of a hold that this package finds itself. Verdicts bring their own.
const (
	CauseRead      = "read"
	CausePositions = "positions"
	CauseGap       = "gap"
)

// State is what a partition is doing.
type State int

// The states.
const (
	Starting State = iota
	Running
	Idle
	Holding
	Stopped
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

// Status is a partition at one moment.
type Status struct {
	Partition int
	Stream    string
	State     State
	Position  wire.ID
	Blocked   *Blocked // what holds it; nil when nothing does
	Err       error    // why it stopped
	Lag       int64    // entries behind the position; meaningful when LagKnown
	LagKnown  bool
	Length    int64          // entries in the stream; meaningful when Sampled
	Sampled   bool           // the last look at the stream's tail worked
	Oldest    time.Time      // when the oldest entry that is read and not done was added; zero when there is none
	Read      bool           // a read has worked
	Missing   bool           // there is no stream
	Passed    int64          // entries the position moved over in this run
	Handed    int64          // those of them that were handed over
	Skipped   int64          // those of them that were given up on
	Parked    int64          // those of them that were put aside
	Gaps      int64          // holes that were reported in this run
	LastGap   *Gap           // the last of them
	TrimIn    *time.Duration // until trimming reaches the position, which stands; nil when it does not, or nobody knows
}

// status is where a partition's goroutines note what they do.
type status struct {
	partition int
	stream    string

	mu       sync.Mutex
	position wire.ID
	read     bool      // a read has worked
	behind   bool      // the last one brought as much as it asked for: there may be more
	waiting  []wire.ID // first entry of each batch that is read and not done
	busy     bool      // a batch is with the handler
	held     *Blocked  // what holds the worker
	unread   *Blocked  // what holds the reader
	stopped  bool
	err      error
	counts   counts
	lag      lag
	missing  bool
	length   int64
	sampled  bool // the last look at the stream's tail worked
	gaps     int64
	lastGap  *Gap
	trimIn   *time.Duration
}

type counts struct {
	passed  int64 // entries the position moved over
	handed  int64 // those of them that were handed over
	skipped int64 // those of them that were given up on
	parked  int64 // those of them that were put aside
}

func (s *status) begin(start wire.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.position, s.waiting, s.held, s.lag, s.trimIn = start, nil, nil, lag{}, nil
	s.behind = s.read // a reset: nobody knows before the next read
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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unread = s.unread.again(CauseRead, err, wait)
}

// trouble notes what holds the worker other than a verdict.
func (s *status) trouble(cause string, err error, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = s.held.again(cause, err, wait)
}

func (s *status) hold(blocked Blocked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = &blocked
}

func (s *status) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = nil
}

func (s *status) handing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = true
}

func (s *status) handed(skipped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	s.counts.skipped += int64(skipped)
}

func (s *status) parked(entries int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.parked += int64(entries)
}

func (s *status) inHand() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy
}

func (s *status) advance(page Page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.position, s.trimIn = page.Last, nil
	s.waiting = s.waiting[1:]
	s.counts.passed += int64(page.Read)
	s.counts.handed += int64(len(page.Entries))
}

// gap notes a hole that was reported, and what has become of the one that holds the partition, if one does.
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
		Passed: s.counts.passed, Handed: s.counts.handed, Skipped: s.counts.skipped, Length: s.length, Sampled: s.sampled,
		Parked: s.counts.parked,
		Gaps:   s.gaps, LastGap: s.lastGap, TrimIn: s.trimIn,
	}
	snapshot.Lag, snapshot.LagKnown = s.lag.behind(s.counts.passed)
	snapshot.LagKnown = snapshot.LagKnown && s.sampled
	switch {
	case len(s.waiting) > 0:
		snapshot.Oldest = s.waiting[0].Time()
	case s.behind && !s.position.IsZero():
		snapshot.Oldest = s.position.Time() // what is read next is hardly younger
	}
	if snapshot.Blocked == nil {
		snapshot.Blocked = s.unread
	}
	switch {
	case s.stopped:
		snapshot.State = Stopped
	case snapshot.Blocked != nil:
		snapshot.State = Holding
	case len(s.waiting) > 0, s.behind:
		snapshot.State = Running
	case s.read:
		snapshot.State = Idle
	default:
		snapshot.State = Starting
	}
	return snapshot
}

// again is the same trouble once more, or the first of another.
func (b *Blocked) again(cause string, err error, wait time.Duration) *Blocked {
	now := time.Now()
	next := Blocked{Since: now, Attempts: 1, Next: now.Add(wait), Cause: cause, Err: err}
	if b != nil && b.Cause == cause {
		next.Since, next.Attempts = b.Since, b.Attempts+1
	}
	return &next
}
