package restatetest

import "net/http"

// answer records the status in the request before the client can see it.
type answer struct {
	http.ResponseWriter
	exchange *exchange
	decided  bool
}

func (a *answer) WriteHeader(status int) {
	a.record(status)
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) record(status int) {
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

// Flush makes it an [http.Flusher], for steps that send their answer in parts.
func (a *answer) Flush() {
	a.finish()
	_ = http.NewResponseController(a.ResponseWriter).Flush()
}

// finish sends the 200 that net/http would send by default.
func (a *answer) finish() {
	if !a.decided {
		a.WriteHeader(http.StatusOK)
	}
}
