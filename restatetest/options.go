package restatetest

import "time"

// DefaultBodyLimit is the default of [WithBodyLimit] in bytes: 32 MiB, as in the real server.
const DefaultBodyLimit = 32 << 20

// DefaultHandler is the handler of a workflow, service or object that is declared without naming one.
const DefaultHandler = "run"

// DefaultRetention is the default of [WithRetention]: one day, as in the real server.
const DefaultRetention = 24 * time.Hour

// Option configures a server.
type Option func(*Server)

type limits struct {
	body       int64
	concurrent int
}

// WithWorkflow declares a workflow with these handlers, each with JSON input; without names, with [DefaultHandler]. A server with any
// declaration accepts declared names only, to the letter. One without accepts every name, as a workflow's.
func WithWorkflow(name string, handlers ...string) Option {
	return func(s *Server) { s.Register(name, handlers...) }
}

// WithShared declares shared handlers of a workflow, and with them the workflow. A send to one does not start the workflow: each is a run
// of its own, unless it repeats the Idempotency-Key of one with the same workflow, key and handler. The handler that runs once
// per key is declared by [WithWorkflow].
func WithShared(workflow string, handlers ...string) Option {
	return func(s *Server) {
		declared := s.declare(workflow)
		for _, name := range handlers {
			declared.handlers[name] = handler{input: declared.handlers[name].input, shared: true}
		}
	}
}

// WithService declares a service with these handlers, each with JSON input; without names, with [DefaultHandler]. Its path has no key:
// POST /{service}/{handler}/send. Each send is a run of its own, unless it repeats the Idempotency-Key, even an empty one, of
// one with the same service and handler. That Idempotency-Key, empty without one, is what this package calls the key of a
// service.
func WithService(name string, handlers ...string) Option {
	return declareAs(kindService, name, handlers)
}

// WithObject declares a virtual object with these handlers, each with JSON input; without names, with [DefaultHandler]. Each send is a
// run of its own, unless it repeats the Idempotency-Key, even an empty one, of one with the same object, key and handler.
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

// WithInput declares a handler whose input is not JSON, and with it the workflow, unless the name is declared as a service or object.
func WithInput(workflow, handler string, input Input) Option {
	return func(s *Server) {
		handlers := s.declare(workflow).handlers
		declared := handlers[handler]
		declared.input = input
		handlers[handler] = declared
	}
}

// WithPrivate declares a workflow as [WithWorkflow] does, but one that the ingress refuses to start because it is not public. After
// [WithService] or [WithObject] of the same name it makes that private.
func WithPrivate(name string, handlers ...string) Option {
	return func(s *Server) {
		s.Register(name, handlers...)
		s.declare(name).private = true
	}
}

// WithRetention sets how long the server remembers a completed run of a workflow or with an Idempotency-Key. After that the same key
// starts again: the answer is Accepted with the same invocation id, and [Server.Starts] has a second entry. A run completes when it
// is accepted, a delayed one at the end of its delay. Defaults to [DefaultRetention]. Zero forgets at completion, a negative
// one never. The real server forgets at its next scan, by default up to an hour later.
func WithRetention(d time.Duration) Option {
	return func(s *Server) { s.invocations.retention = d }
}

// WithBodyLimit sets the largest request body accepted, in bytes; a larger one is answered 413. Defaults to [DefaultBodyLimit], and so
// do zero and negative limits.
func WithBodyLimit(bytes int64) Option {
	return func(s *Server) {
		if bytes <= 0 {
			bytes = DefaultBodyLimit
		}
		s.limits.body = bytes
	}
}

// WithConcurrencyLimit answers 429 to every request, health checks included, that arrives while n are being served. By default, and when
// n is zero or negative, there is no limit.
func WithConcurrencyLimit(n int) Option {
	return func(s *Server) { s.limits.concurrent = n }
}
