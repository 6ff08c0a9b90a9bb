package restatetest

import "time"

// DefaultBodyLimit is the largest request body accepted, in bytes: 32 MiB, as the real server's.
const DefaultBodyLimit = 32 << 20

// DefaultHandler is the name of the handler a workflow, service or object is declared with when none is named.
const DefaultHandler = "run"

// DefaultRetention is how long a completed run is remembered: one day, as by the real server.
const DefaultRetention = 24 * time.Hour

// Option changes a server before it starts.
type Option func(*Server)

type limits struct {
	body       int64
	concurrent int
}

// WithWorkflow declares a workflow with these handlers, [DefaultHandler] if none are named, each taking JSON. Declared
// names alone are accepted then, names being case-sensitive; a server without any declaration accepts every name, as a workflow's.
func WithWorkflow(name string, handlers ...string) Option {
	return func(s *Server) { s.Register(name, handlers...) }
}

// WithShared declares shared handlers of a workflow, and the workflow with them. A send to one does not start the workflow: it
// runs anew each time, unless an Idempotency-Key makes it a repeat of the one of the same workflow, key and handler.
// The handler that runs once per key is [WithWorkflow]'s.
func WithShared(workflow string, handlers ...string) Option {
	return func(s *Server) {
		declared := s.declare(workflow)
		for _, name := range handlers {
			declared.handlers[name] = handler{input: declared.handlers[name].input, shared: true}
		}
	}
}

// WithService declares a service with these handlers, [DefaultHandler] if none are named, each taking JSON. Its path has no key:
// POST /{service}/{handler}/send. Each send is a run of its own, unless an Idempotency-Key, empty ones included, makes it
// a repeat of the one of the same service and handler. Where this package speaks of a key, it is that Idempotency-Key for a
// service; empty without one.
func WithService(name string, handlers ...string) Option {
	return declareAs(kindService, name, handlers)
}

// WithObject declares a virtual object with these handlers, [DefaultHandler] if none are named, each taking JSON. Each send is
// a run of its own, unless an Idempotency-Key, empty ones included, makes it a repeat of the one of the same object, key
// and handler.
func WithObject(name string, handlers ...string) Option {
	return declareAs(kindObject, name, handlers)
}

func declareAs(kind kind, name string, handlers []string) Option {
	return func(s *Server) {
		declared := s.declare(name)
		declared.kind = kind
		declared.add(handlers)
	}
}

// WithInput declares a handler whose input is not JSON, and with it the workflow, unless the name is declared as a service or an
// object.
func WithInput(workflow, handler string, input Input) Option {
	return func(s *Server) {
		handlers := s.declare(workflow).handlers
		declared := handlers[handler]
		declared.input = input
		handlers[handler] = declared
	}
}

// WithPrivate declares a workflow, like [WithWorkflow], that the ingress refuses to start because it is not public. After
// [WithService] or [WithObject] of the same name it makes that private.
func WithPrivate(name string, handlers ...string) Option {
	return func(s *Server) {
		s.Register(name, handlers...)
		s.declare(name).private = true
	}
}

// WithRetention sets how long the server remembers a completed run, a workflow's as well as one with an Idempotency-Key. After
// that the same key starts again: the answer is Accepted with the same invocation id, and [Server.Starts] has a second entry.
// Runs complete when they are accepted, delayed ones when their delay is over. Defaults to [DefaultRetention]. Zero
// forgets at completion, negative never. The real server forgets at the next of its scans, by default up to an hour later.
func WithRetention(d time.Duration) Option {
	return func(s *Server) { s.ledger.retention = d }
}

// WithBodyLimit sets the largest request body accepted, in bytes; a larger one is answered 413. Defaults to [DefaultBodyLimit].
// Zero and negative stand for the default.
func WithBodyLimit(bytes int64) Option {
	return func(s *Server) {
		if bytes <= 0 {
			bytes = DefaultBodyLimit
		}
		s.limits.body = bytes
	}
}

// WithConcurrencyLimit answers 429 to every request, health checks included, that arrives while n are being served.
// By default, and when n is zero or negative, there is no limit.
func WithConcurrencyLimit(n int) Option {
	return func(s *Server) { s.limits.concurrent = n }
}
