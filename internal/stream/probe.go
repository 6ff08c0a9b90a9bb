package stream

import "time"

// maxAway is how long a reader may have been away from the stream, held or disconnected, and still assume that
// nothing unread was trimmed.
const maxAway = time.Second

// probeSchedule decides which reads also probe for a gap: the first, each one while the reader is behind, the first
// after it was away, and an idle reader's every sampleInterval. A probe costs no extra round trip, but cannot wait for
// entries.
type probeSchedule struct {
	behind bool
	read   time.Time // last
	probed time.Time // last
}

func (s *probeSchedule) due() bool {
	return s.behind || time.Since(s.read) > maxAway || time.Since(s.probed) >= sampleInterval
}

// readFailed makes the next read probe: the failed one may have been answered, and the answer lost.
func (s *probeSchedule) readFailed() { s.behind = true }

// readWorked records a read, and whether it returned as many entries as requested.
func (s *probeSchedule) readWorked(probe, full bool) {
	s.read, s.behind = time.Now(), full
	if probe {
		s.probed = s.read
	}
}
