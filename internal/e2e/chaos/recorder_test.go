package chaos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redisevents/restatestart/internal/e2e/chaos/check"
	"github.com/redisevents/restatestart/internal/e2e/payout"
)

// recorder stands before Restate's ingress. It notes each request before it goes on, and each 2xx before the answer
// goes back: what it knows to be accepted was so before any consumer could know. An answer that does not come is a
// connection that breaks, as without the recorder.
type recorder struct {
	record    *check.Record
	target    *url.URL
	server    *http.Server
	listener  net.Listener
	transport *http.Transport
	served    chan struct{}
	gate      sync.RWMutex // held by each request on its way; who locks it keeps them waiting

	mu       sync.Mutex
	statuses map[int]int // 0: no answer
	problems []string
}

func newRecorder(record *check.Record, ingress string) (*recorder, error) {
	target, err := url.Parse(ingress)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	const many = 64
	r := &recorder{
		record: record, target: target, listener: listener, served: make(chan struct{}), statuses: map[int]int{},
		transport: &http.Transport{MaxIdleConnsPerHost: many},
	}
	r.server = &http.Server{Handler: http.HandlerFunc(r.serve), ReadHeaderTimeout: time.Minute}
	go func() {
		defer close(r.served)
		_ = r.server.Serve(listener) // it returns when close does its work
	}()
	return r, nil
}

func (r *recorder) addr() string { return r.listener.Addr().String() }

func (r *recorder) close() {
	_ = r.server.Close()
	<-r.served
	// Close leaves handlers behind: without connections they end soon.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = r.server.Shutdown(ctx)
	r.transport.CloseIdleConnections()
}

func (r *recorder) serve(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the sender is gone
	}
	ref, key, err := readRequest(request, body)
	if err != nil {
		r.problem(err.Error())
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.gate.RLock()
	defer r.gate.RUnlock()
	r.record.Requested(ref, key, time.Now())
	answer, text, err := r.forward(request, body)
	if err != nil {
		r.count(0)
		panic(http.ErrAbortHandler)
	}
	if answer.StatusCode/100 == 2 {
		var told struct {
			Status string `json:"status"`
		}
		if err := json.Unmarshal(text, &told); err != nil || !strings.HasSuffix(told.Status, "Accepted") {
			r.problem(fmt.Sprintf("an answer is %d %s", answer.StatusCode, text))
		}
		r.record.Accepted(ref, told.Status == "PreviouslyAccepted", time.Now())
	}
	r.count(answer.StatusCode)
	maps.Copy(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write(text) // whoever asked may be gone
}

func (r *recorder) forward(request *http.Request, body []byte) (*http.Response, []byte, error) {
	onward := request.Clone(request.Context())
	onward.URL.Scheme, onward.URL.Host, onward.Host = r.target.Scheme, r.target.Host, ""
	onward.RequestURI = ""
	onward.Body, onward.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	answer, err := r.transport.RoundTrip(onward)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	return answer, text, err
}

// readRequest tells which entry a start is of, and which key it has.
func readRequest(request *http.Request, body []byte) (check.Ref, string, error) {
	// /{workflow}/{key}/{handler}/send
	segments := strings.Split(strings.TrimPrefix(request.URL.Path, "/"), "/")
	if request.Method != http.MethodPost || len(segments) != 4 || segments[0] != payout.Workflow || segments[3] != "send" {
		return check.Ref{}, "", fmt.Errorf("a request is %s %s", request.Method, request.URL.Path)
	}
	var input payout.Input
	if err := json.Unmarshal(body, &input); err != nil {
		return check.Ref{}, "", fmt.Errorf("a request has the body %q: %w", body, err)
	}
	ref, err := refOf(input)
	return ref, segments[1], err
}

func (r *recorder) count(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statuses[status]++
}

func (r *recorder) problem(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = append(r.problems, text)
}

// told are the answers by status, and what was wrong with requests.
func (r *recorder) told() (statuses map[int]int, problems []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.statuses), slices.Clone(r.problems)
}
