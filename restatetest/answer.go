package restatetest

import "net/http"

// answer notes the status in the request's record before the client can see it.
type answer struct {
	http.ResponseWriter
	exchange *exchange
	decided  bool
}

func (a *answer) WriteHeader(status int) {
	a.note(status)
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) note(status int) {
	if a.decided || status < 200 {
		return
	}
	a.decided = true
	a.exchange.server.mu.Lock()
	defer a.exchange.server.mu.Unlock()
	a.exchange.request.Status = status
}

func (a *answer) Write(p []byte) (int, error) {
	a.finish()
	return a.ResponseWriter.Write(p)
}

// Flush makes the answer an [http.Flusher], for steps that answer bit by bit.
func (a *answer) Flush() {
	a.finish()
	_ = http.NewResponseController(a.ResponseWriter).Flush()
}

// finish is the 200 that net/http sends when nobody said otherwise.
func (a *answer) finish() {
	if !a.decided {
		a.WriteHeader(http.StatusOK)
	}
}
