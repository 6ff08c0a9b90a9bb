package restatetest

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// exchange is one request on its way to an answer.
type exchange struct {
	server  *Server
	w       *answer
	r       *http.Request
	target  target
	request *Request // the record of it, guarded by server.mu
	body    []byte
	broken  *refusal // why the body could not be read to its end
}

// handle serves one request. The order of what is looked at is the real server's: size, CORS, load, then what check does. Scripts come
// after the path, for their key is in it.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	sent := sentTarget(r)
	x := &exchange{server: s, r: r, target: parseTarget(sent)}
	x.request = &Request{
		Method: r.Method, RequestURI: sent, Header: r.Header, At: time.Now(),
		Workflow: x.target.workflow, Key: x.target.key, Handler: x.target.handler,
	}
	x.w = &answer{ResponseWriter: w, exchange: x}
	keyed := x.target.verb == verbSend && x.target.misshapen == nil

	s.mu.Lock()
	admitted := s.traffic.arrive(x.request, keyed, s.limits.concurrent)
	s.mu.Unlock()
	if admitted {
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.traffic.leave()
		}()
	}
	switch {
	case len(sent) > maxTarget:
		writeBare(x.w, http.StatusRequestURITooLong)
	case headerRows(r.Header) > maxHeaderRows:
		writeBare(x.w, http.StatusRequestHeaderFieldsTooLarge)
	case !utf8.ValidString(sent):
		writeBare(x.w, http.StatusBadRequest)
	case r.ContentLength > s.limits.body:
		x.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		x.w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = io.WriteString(x.w, "length limit exceeded")
	case r.Method == http.MethodOptions:
		x.preflight()
	case !admitted:
		refuse(http.StatusTooManyRequests, overloaded).write(x.w)
	default:
		x.read()
		x.step(keyed).run(x)
	}
}

func (x *exchange) step(keyed bool) Step {
	if !keyed {
		return Pass()
	}
	x.server.mu.Lock()
	defer x.server.mu.Unlock()
	return x.server.scripts.next(x.target.key)
}

// read takes the body in, copying it once.
func (x *exchange) read() {
	limit := x.server.limits.body
	var err error
	if n := x.r.ContentLength; n >= 0 {
		x.body = make([]byte, n)
		_, err = io.ReadFull(x.r.Body, x.body)
	} else {
		x.body, err = io.ReadAll(http.MaxBytesReader(x.w.ResponseWriter, x.r.Body, limit))
	}
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		x.broken = refuse(http.StatusRequestEntityTooLarge, bodyTooLong)
	} else if err != nil {
		x.broken = refuse(http.StatusInternalServerError, bodyCutOff)
	}
	if x.broken != nil {
		x.body = nil
	}

	x.server.mu.Lock()
	defer x.server.mu.Unlock()
	// A repeat's body is mostly the first one's, which is held already.
	if first := x.server.ledger.starts[identity{x.target.workflow, x.target.key}]; first != nil && bytes.Equal(first.Body, x.body) {
		x.body = first.Body
	}
	x.request.Body = x.body
}

// normally answers as the real server does.
func (x *exchange) normally() {
	if x.target.verb == verbHealth && x.target.unroutable == nil {
		x.health()
		return
	}
	started, previously, refusal := x.accept()
	if refusal != nil {
		refusal.write(x.w)
		return
	}
	started.answer(x.w, previously)
}

// accept starts the workflow, or finds it started, unless something is wrong with the request.
func (x *exchange) accept() (started *Started, previously bool, refused *refusal) {
	start := &Started{
		Workflow: x.target.workflow, Key: x.target.key, Handler: x.target.handler, Body: x.body, Header: x.r.Header,
	}
	x.server.mu.Lock()
	defer x.server.mu.Unlock()
	if refused = x.check(start); refused != nil {
		return nil, false, refused
	}
	started, previously = x.server.ledger.accept(start)
	x.request.Previously = previously
	return started, previously, nil
}

// check finds what is wrong with the request, in the order in which the real server looks, and reads the delay into start. It is called
// with the server's mu held.
func (x *exchange) check(start *Started) *refusal {
	t, registered := x.target, x.server.services
	if t.unroutable != nil {
		return t.unroutable
	}
	if registered != nil && t.workflow != "" && registered[t.workflow] == nil {
		return unknownService(t.workflow)
	}
	if t.misshapen != nil {
		return t.misshapen
	}
	input := InputJSON
	if declared := registered[t.workflow]; declared != nil {
		var known bool
		if input, known = declared.handlers[t.handler]; !known {
			return unknownHandler(t.workflow, t.handler)
		}
		if declared.private {
			return refuse(http.StatusBadRequest, notPublic)
		}
	}
	if t.verb != verbSend {
		return refuse(http.StatusNotImplemented, notImitated)
	}
	if len(x.r.Header["Idempotency-Key"]) > 0 {
		return refuse(http.StatusBadRequest, idempotency)
	}
	if x.r.Method != http.MethodPost && x.r.Method != http.MethodGet {
		return refuse(http.StatusMethodNotAllowed, notAllowed)
	}
	return x.checkContent(start, input)
}

func (x *exchange) checkContent(start *Started, input Input) *refusal {
	if x.broken != nil {
		return x.broken
	}
	if !visible(x.r.Header.Values("Content-Type")) {
		return badHeader("Content-Type")
	}
	if problem := input.refuses(x.r.Header, x.body); problem != "" {
		return refuse(http.StatusBadRequest, "input validation error: "+problem)
	}
	delay, delayed, err := queryDelay(x.target.query)
	if err != nil {
		return refuse(http.StatusBadRequest, "bad delay query parameter, must be a ISO8601 duration: "+err.Error())
	}
	if delayed {
		start.Delay = delay
		start.executionTime = time.Now().UTC().Add(delay).Truncate(time.Millisecond)
	}
	for _, name := range slices.Sorted(maps.Keys(x.r.Header)) {
		if !visible(x.r.Header[name]) {
			return badHeader(name)
		}
	}
	return nil
}

// visible reports whether header values are of visible ASCII, spaces and tabs, the only ones the real server hands on.
func visible(values []string) bool {
	return !slices.ContainsFunc(values, func(value string) bool {
		return strings.ContainsFunc(value, func(r rune) bool { return r != '\t' && (r < ' ' || r > '~') })
	})
}

func (x *exchange) health() {
	if x.r.Method != http.MethodGet {
		refuse(http.StatusMethodNotAllowed, notAllowed).write(x.w)
		return
	}
	x.server.mu.Lock()
	names := x.server.services.names()
	x.server.mu.Unlock()
	writeJSON(x.w, http.StatusOK, struct {
		Services []string `json:"services"`
	}{names})
}

// preflight answers OPTIONS: every method and origin asked for is allowed.
func (x *exchange) preflight() {
	header := x.w.Header()
	header.Set("Access-Control-Allow-Credentials", "true")
	header["Vary"] = []string{corsVary}
	if method := x.r.Header.Get("Access-Control-Request-Method"); method != "" {
		header.Set("Access-Control-Allow-Methods", method)
	}
	if origin := x.r.Header.Get("Origin"); origin != "" {
		header.Set("Access-Control-Allow-Origin", origin)
	}
	x.w.WriteHeader(http.StatusOK)
}

// headerRows counts header lines; net/http takes Host out of them.
func headerRows(header http.Header) int {
	rows := 1
	for _, values := range header {
		rows += len(values)
	}
	return rows
}
