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
	once    bool     // the handler runs once per key
	key     string   // that tests use: the idempotency key for a service
	body    []byte
	broken  *refusal // why the body could not be read to its end
	outcome *outcome // of accept, once it was called
}

type outcome struct {
	started    *Started
	previously bool
	refused    *refusal
}

// handle serves one request, with the checks in the real server's order: size, CORS, load, then those of check. Scripts come after the
// path, which has their key.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	if !s.beginRequest() {
		abort()
	}
	defer s.running.Done()
	sent := sentTarget(r)
	x := &exchange{server: s, r: r}
	x.w = &answer{ResponseWriter: w, exchange: x}

	s.mu.Lock()
	x.target = parseTarget(sent, s.services)
	x.once = s.services.once(x.target.workflow, x.target.handler)
	keyed := x.target.verb == verbSend && x.target.malformed == nil
	if x.key = x.target.key; x.target.kind == kindService {
		x.key = r.Header.Get("Idempotency-Key")
	}
	x.request = &Request{
		Method: r.Method, RequestURI: sent, Proto: r.Proto, Header: r.Header, At: time.Now(),
		Workflow: x.target.workflow, Key: x.target.key, Handler: x.target.handler,
	}
	if keyed {
		s.traffic.attempt(x.key)
	}
	admitted := s.traffic.arrive(x.request, s.limits.concurrent)
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
		x.writeBare(http.StatusRequestURITooLong)
	case headerTooLarge(r):
		x.writeBare(http.StatusRequestHeaderFieldsTooLarge)
	case !utf8.ValidString(sent) || illegal(sent):
		x.writeBare(http.StatusBadRequest)
	case r.ContentLength > s.limits.body:
		x.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		x.w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = io.WriteString(x.w, "length limit exceeded")
	case r.Method == http.MethodOptions:
		x.origin()
		x.preflight()
	case !admitted:
		x.origin()
		refuse(http.StatusTooManyRequests, overloaded).write(x.w)
	default:
		x.origin()
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
	return x.server.scripts.next(x.key, time.Now())
}

// read reads the body.
func (x *exchange) read() {
	limit := x.server.limits.body
	var err error
	if n := x.r.ContentLength; n >= 0 {
		x.body = make([]byte, n)
		_, err = io.ReadFull(x.r.Body, x.body)
	} else {
		x.body, err = io.ReadAll(http.MaxBytesReader(nil, x.r.Body, limit))
	}
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		x.broken = refuse(http.StatusRequestEntityTooLarge, bodyTooLong)
	} else if errors.Is(err, io.ErrUnexpectedEOF) {
		x.broken = refuse(http.StatusInternalServerError, bodyCutOff)
	} else if err != nil {
		x.broken = refuse(http.StatusInternalServerError, "cannot read body: hyper::Error(Body, Custom { kind: InvalidInput, error: \"Invalid chunk size line: missing size digit\" })")
	}
	if x.broken != nil {
		x.body = nil
	}

	x.server.mu.Lock()
	defer x.server.mu.Unlock()
	// A repeat's body is mostly that of the first send: keep one copy.
	if id := x.identity(); id != nil {
		if first := x.server.invocations.latest[*id]; first != nil && bytes.Equal(first.Body, x.body) {
			x.body = first.Body
		}
	}
	x.request.Body = x.body
}

// answerNormally answers as the real server does.
func (x *exchange) answerNormally() {
	if x.target.verb == verbHealth && x.target.unroutable == nil {
		x.health()
		return
	}
	if outcome := x.accept(); outcome.refused != nil {
		outcome.refused.write(x.w)
	} else {
		outcome.started.answer(x.w, outcome.previously)
	}
}

// accept starts the workflow, or finds it started, unless the request is refused. A second call returns the first one's outcome, so that
// a request which its step accepts early is not a repeat of itself.
func (x *exchange) accept() *outcome {
	x.server.mu.Lock()
	defer x.server.mu.Unlock()
	if x.outcome != nil {
		return x.outcome
	}
	start := &Started{
		Workflow: x.target.workflow, Key: x.target.key, Handler: x.target.handler,
		IdempotencyKey: x.r.Header.Get("Idempotency-Key"), Body: x.body, Header: x.r.Header, At: time.Now(),
		identity: x.identity(), once: x.once, key: x.key,
	}
	x.outcome = &outcome{refused: x.check(start)}
	if x.outcome.refused == nil {
		x.outcome.started, x.outcome.previously = x.server.invocations.accept(start)
		x.request.Previously = x.outcome.previously
	}
	return x.outcome
}

// identity is nil for a send that cannot be a repeat.
func (x *exchange) identity() *identity {
	id := identity{name: x.target.workflow, key: x.target.key}
	if x.once {
		return &id
	}
	keys := x.r.Header["Idempotency-Key"]
	if len(keys) == 0 {
		return nil
	}
	id.handler, id.idempotencyKey = x.target.handler, keys[0]
	return &id
}

// check validates the request in the real server's order and reads the delay into start. It is called with the server's mu held.
func (x *exchange) check(start *Started) *refusal {
	t, registered := x.target, x.server.services
	if t.unroutable != nil {
		return t.unroutable
	}
	declared := registered.find(t.workflow)
	if registered != nil && t.named && declared == nil {
		return unknownService(t.workflow)
	}
	if t.malformed != nil {
		return t.malformed
	}
	input := InputJSON
	if declared != nil {
		handler, known := declared.handlers[t.handler]
		if !known {
			return unknownHandler(t.workflow, t.handler)
		}
		if declared.private {
			return refuse(http.StatusBadRequest, notPublic)
		}
		input = handler.input
	}
	if t.verb != verbSend {
		return refuse(http.StatusNotImplemented, unsupported)
	}
	if keys := x.r.Header["Idempotency-Key"]; len(keys) > 0 {
		if x.once {
			return refuse(http.StatusBadRequest, idempotency)
		}
		if !visible(keys[:1]) {
			return badHeader("Idempotency-Key")
		}
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

// visible reports whether header values are visible ASCII, spaces and tabs, which is all that the real server passes on.
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

func (x *exchange) origin() {
	if origin := x.r.Header.Get("Origin"); origin != "" {
		x.w.Header().Set("Access-Control-Allow-Origin", origin)
	}
}

func illegal(sent string) bool {
	sent, _, _ = strings.Cut(sent, "#")
	path, query, _ := strings.Cut(sent, "?")
	return strings.ContainsAny(path, "<>`") || strings.ContainsAny(query, "<>\"")
}

// preflight answers a CORS preflight: every method and header is allowed.
func (x *exchange) preflight() {
	header := x.w.Header()
	header.Set("Access-Control-Allow-Credentials", "true")
	header["Vary"] = []string{corsVary}
	if method := x.r.Header.Get("Access-Control-Request-Method"); method != "" {
		header.Set("Access-Control-Allow-Methods", method)
	}
	if names := x.r.Header.Get("Access-Control-Request-Headers"); names != "" {
		header.Set("Access-Control-Allow-Headers", names)
	}
	x.w.WriteHeader(http.StatusOK)
}

// headerTooLarge applies the real server's limits: a number of lines on HTTP/1.1, of bytes as RFC 9113 counts them on HTTP/2.
func headerTooLarge(r *http.Request) bool {
	if r.ProtoMajor < 2 {
		rows := 1 // Host, which net/http removes
		for _, values := range r.Header {
			rows += len(values)
		}
		return rows > maxHeaderRows
	}
	const overhead = 32 // of each field
	size := len(":method:scheme:authority:path") + len("http") + 4*overhead + len(r.Method) + len(r.Host) + len(r.RequestURI)
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value) + overhead
		}
	}
	return size > maxHeaderBytes
}
