package payout

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	restate "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/server"
)

// Service serves the payout workflow under one or more names on a loopback port. Its methods are safe for concurrent
// use.
type Service struct {
	// Record is that of the first name.
	*Record

	records map[string]*Record
	url     string
	server  *http.Server
	served  chan struct{} // closed once the server stopped

	mu       sync.Mutex
	closing  bool // no request is taken any more, so that requests can be waited for
	requests sync.WaitGroup
}

// NewService serves the payout workflow under each of names on a free loopback port, by HTTP/2 without TLS. Without
// names it is served as BonusPayout ([Workflow]). It serves until Close; Restate knows it once it is registered there.
// A repeated or empty name is an error.
func NewService(names ...string) (*Service, error) {
	if len(names) == 0 {
		names = []string{Workflow}
	}
	s := &Service{records: make(map[string]*Record), served: make(chan struct{})}
	endpoint := server.NewRestate().WithLogger(slog.DiscardHandler, true)
	for _, name := range names {
		if name == "" {
			return nil, fmt.Errorf("serve workflows %q: a name is empty", names)
		}
		if s.records[name] != nil {
			return nil, fmt.Errorf("serve workflows %q: %s is there twice", names, name)
		}
		record := newRecord()
		s.records[name] = record
		endpoint.Bind(restate.NewWorkflow(name).Handler(Handler, restate.NewWorkflowHandler(record.run)))
	}
	s.Record = s.records[names[0]]

	handler, err := endpoint.Handler()
	if err != nil {
		return nil, fmt.Errorf("serve workflows %q: %w", names, err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve workflows %q: %w", names, err)
	}
	s.url = "http://" + listener.Addr().String()
	s.server = &http.Server{Handler: s.counted(handler), Protocols: new(http.Protocols), ReadHeaderTimeout: 5 * time.Second}
	s.server.Protocols.SetUnencryptedHTTP2(true)
	go func() {
		defer close(s.served)
		// It returns when Close closes the listener, with an error that says so.
		_ = s.server.Serve(listener)
	}()
	return s, nil
}

// counted lets Close wait for the requests that it cut off.
func (s *Service) counted(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		if s.closing {
			s.mu.Unlock()
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		s.requests.Add(1)
		s.mu.Unlock()
		defer s.requests.Done()
		handler.ServeHTTP(w, r)
	})
}

// URL returns where the service is served: what Restate is given to register it.
func (s *Service) URL() string { return s.url }

// Of returns the record of the workflow called name, or nil when it is not served here.
func (s *Service) Of(name string) *Record { return s.records[name] }

// Close cuts off every connection, waits for the handlers and returns. Restate retries what was running. What was
// recorded stays readable.
func (s *Service) Close() error {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	err := s.server.Close()
	<-s.served
	s.requests.Wait()
	if err != nil {
		return fmt.Errorf("close the service at %s: %w", s.url, err)
	}
	return nil
}

// run is the workflow: it pays once and says so.
func (r *Record) run(ctx restate.WorkflowContext, input Input) (restate.Void, error) {
	key, request := restate.Key(ctx), ctx.Request()
	r.enter(Attempt{
		InvocationID: request.ID,
		Key:          key,
		Body:         request.Body,
		Input:        input,
		Header:       request.Headers.ToMap(),
	})
	payment, err := restate.Run(ctx, func(restate.RunContext) (int, error) { return r.pay(key), nil })
	if err != nil {
		return restate.Void{}, err
	}
	r.complete(key, payment)
	return restate.Void{}, nil
}
