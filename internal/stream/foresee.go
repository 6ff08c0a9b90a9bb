package stream

import (
	"context"
	"log/slog"
	"time"

	"github.com/redisevents/restatestart/internal/wire"
)

const (
	// rateWindow is what the publish rate is taken over.
	rateWindow = time.Minute
	// trimWindow is how long ago the stream may last have been trimmed, and still count as being trimmed: `MAXLEN ~`
	// removes a hundred entries at a time.
	trimWindow = 10 * time.Minute
	// trimAlarm is how near trimming comes to a position before the log says so.
	trimAlarm = 10 * time.Minute
)

// forecast tells when trimming reaches a position that stands. It belongs to the goroutine that samples.
type forecast struct {
	seen     []glimpse // of the last rateWindow, oldest first
	trimmed  time.Time // when entries were last seen to have been removed
	position wire.ID   // at the last sample
	logged   Seldom
}

type glimpse struct {
	at            time.Time
	added, length int64
}

// sampled takes in a tail.
func (f *forecast) sampled(tail Tail) {
	now := glimpse{time.Now(), tail.Added, tail.Length}
	if n := len(f.seen); n > 0 {
		switch last := f.seen[n-1]; {
		case now.added < last.added:
			*f = forecast{logged: f.logged} // another stream
		case now.added-now.length > last.added-last.length:
			f.trimmed = now.at
		}
	}
	for len(f.seen) > 1 && now.at.Sub(f.seen[1].at) >= rateWindow {
		f.seen = f.seen[1:]
	}
	f.seen = append(f.seen, now)
}

// in tells how long it takes, at the rate of the last minute, for as many entries to be added as the stream holds up to
// a position that has so many behind it: each removes one. It is not known where nothing is added, or nothing removed.
func (f *forecast) in(behind int64) (time.Duration, bool) {
	first, last := f.seen[0], f.seen[len(f.seen)-1]
	published := last.added - first.added
	if first.added < 0 || published <= 0 || f.trimmed.IsZero() || last.at.Sub(f.trimmed) > trimWindow {
		return 0, false
	}
	spare := max(0, last.length-behind)
	return time.Duration(float64(last.at.Sub(first.at)) * float64(spare) / float64(published)), true
}

// foresee tells status and log of a position that stands while trimming comes near. The tail is from when the position
// was the one given.
func (p *partition) foresee(ctx context.Context, tail Tail, position wire.ID) {
	f := &p.forecast
	f.sampled(tail)
	stands := position == f.position
	f.position = position
	left := p.status.foresaw(position, func(behind int64) *time.Duration {
		if in, known := f.in(behind); stands && known && behind > 0 {
			return &in
		}
		return nil
	})
	if left != nil && *left < trimAlarm && f.logged.Now() {
		p.log.WarnContext(ctx, "trimming comes near the position", slog.Duration("in", left.Round(time.Second)),
			slog.String("position", position.String()), slog.Int64("length", tail.Length))
	}
}

// foresaw notes when trimming reaches the position, if it is still that one and the entries behind it are counted.
func (s *status) foresaw(position wire.ID, in func(behind int64) *time.Duration) *time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trimIn = nil
	if behind, known := s.lag.behind(s.counts.passed); known && s.position == position {
		s.trimIn = in(behind)
	}
	return s.trimIn
}
