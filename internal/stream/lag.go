package stream

import "github.com/redisevents/restatestart/internal/wire"

// lag counts how many entries a stream holds behind a position. The server counts the entries ever added, but not
// those up to a position in the middle of the stream. Once a sample finds the position at an end of the stream, the
// difference is known, and counting the entries processed keeps it known.
type lag struct {
	known bool
	base  int64 // entries up to where counting those processed began
	added int64 // entries ever added, at the last sample
}

func (l *lag) sampled(tail Tail, position wire.ID, processed int64) {
	behind, known := tail.behind(position, 0, false)
	switch added := tail.Added; {
	case known:
		added = max(added, 0)
		*l = lag{known: true, base: added - behind - processed, added: added}
	case added < 0:
		*l = lag{} // the server does not count, and the position is in the middle
	default:
		l.added = added
	}
}

// moved takes a sample during which the position moved: only the number of entries added can be used.
func (l *lag) moved(tail Tail) {
	if tail.Added < l.added {
		*l = lag{} // another stream, or a server that does not count
	}
	l.added = tail.Added
}

func (l *lag) behind(processed int64) (entries int64, known bool) {
	return max(0, l.added-l.base-processed), l.known
}
