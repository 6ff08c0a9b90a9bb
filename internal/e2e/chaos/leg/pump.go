package leg

import (
	"net"
	"time"
)

const (
	pieceSize = 32 << 10
	// dripPause is the time between two drops.
	dripPause = 20 * time.Millisecond
)

// pump carries one way until it ends, and ends the other side's reading then.
func (l *Leg) pump(to, from net.Conn) {
	piece := make([]byte, pieceSize)
	for {
		n, err := from.Read(piece)
		data := piece[:n]
		for len(data) > 0 {
			allowed, ok := l.pass(from, data)
			if !ok {
				return
			}
			if _, failed := to.Write(data[:allowed]); failed != nil {
				_ = from.Close()
				return
			}
			data = data[allowed:]
		}
		if err != nil {
			if _, ok := l.pass(from, nil); ok {
				end(to)
			}
			return
		}
	}
}

// end passes on that no more data comes.
func end(to net.Conn) {
	if tcp, ok := to.(*net.TCPConn); ok {
		_ = tcp.CloseWrite() // it may have ended for another reason
	}
}

// pass waits as long as the leg's trouble has it, and tells how much of the data may go on. It is false when the
// connection was broken meanwhile.
func (l *Leg) pass(conn net.Conn, data []byte) (allowed int, ok bool) {
	allowed = len(data)
	late := false
	for {
		l.mu.Lock()
		trouble, changed := l.trouble, l.changed
		_, kept := l.conns[conn]
		open := kept && !l.closed
		l.mu.Unlock()
		switch {
		case !open || trouble.Cut:
			return 0, false
		case trouble.Silent:
			<-changed
			continue
		case late:
			return allowed, true
		case trouble.Drip > 0 && len(data) > 0:
			allowed = min(allowed, max(1, trouble.Drip*int(dripPause)/int(time.Second)))
			sleep(dripPause, changed)
		case trouble.Latency > 0:
			sleep(trouble.Latency, changed)
		default:
			return allowed, true
		}
		late = true
	}
}

// sleep ends early when the trouble changes.
func sleep(wait time.Duration, changed <-chan struct{}) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	}
}
