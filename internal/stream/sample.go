package stream

import (
	"context"
	"log/slog"

	"github.com/redisevents/restatestart/internal/wire"
)

// sample looks at the tails of the streams now and then, for the lag in Status.
func (g *Group) sample(ctx context.Context) {
	for {
		for _, p := range g.all() {
			if p.letGo() {
				continue // another instance's by now
			}
			before := p.status.snapshot()
			tail, err := g.config.Source.Tail(ctx, p.number)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				p.status.unsampled()
				continue // the reads of the partition run into the same, and report it
			}
			p.status.took(tail, before)
			p.foresee(ctx, tail, before.Position)
			if !tail.Exists && !before.Missing {
				p.log.Warn("stream does not exist yet", slog.String("stream", before.Stream))
			}
		}
		if !Sleep(ctx, sampleInterval) {
			return
		}
	}
}

// unsampled notes that the server could not be asked. What it said before is old by now.
func (s *status) unsampled() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sampled, s.trimIn = false, nil
}

// took takes in what the server said of the stream. A position that moved while it was asked does not belong
// together with that, and the lag is left as it was.
func (s *status) took(tail Tail, before Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missing, s.length, s.sampled = !tail.Exists, tail.Length, true
	if s.position == before.Position {
		s.lag.sampled(tail, s.position, s.counts.passed)
	} else {
		s.lag.moved(tail)
	}
}

// lag counts how many entries a stream holds behind a position. The server counts the entries ever added, but not
// those up to a position in the middle of the stream. Once a sample finds the position at an end of what the
// stream holds, the difference is known, and counting the entries passed keeps it known.
type lag struct {
	known bool
	base  int64 // entries added before the count of those passed began
	added int64 // entries ever added, at the last sample
}

func (l *lag) sampled(tail Tail, position wire.ID, passed int64) {
	behind := int64(-1)
	switch {
	case tail.Length == 0 || tail.End.Compare(position) <= 0:
		behind = 0
	case tail.First.Compare(position) > 0:
		behind = tail.Length
	}
	switch added := tail.Added; {
	case behind >= 0:
		added = max(added, 0)
		*l = lag{known: true, base: added - behind - passed, added: added}
	case added < 0:
		*l = lag{} // the server does not count, and the position is in the middle
	default:
		l.added = added
	}
}

// moved takes in a sample that does not belong together with a position: how many entries were added is true of any.
func (l *lag) moved(tail Tail) {
	if tail.Added < l.added {
		*l = lag{} // another stream, or a server that does not count
	}
	l.added = tail.Added
}

func (l *lag) behind(passed int64) (entries int64, known bool) {
	return max(0, l.added-l.base-passed), l.known
}
