package restatetest

// DefaultBodyLimit is the largest request body accepted, in bytes: 32 MiB, as the real server's.
const DefaultBodyLimit = 32 << 20

// DefaultHandler is the name of the handler a workflow is declared with when none is named.
const DefaultHandler = "run"

// Option changes a server before it starts.
type Option func(*Server)

type limits struct {
	body       int64
	concurrent int
}

// WithWorkflow declares a workflow with these handlers, [DefaultHandler] if none are named, each taking JSON. Declared
// workflows alone are accepted then, names being case-sensitive; a server without any declaration accepts every name.
func WithWorkflow(name string, handlers ...string) Option {
	return func(s *Server) { s.Register(name, handlers...) }
}

// WithInput declares a workflow's handler whose input is not JSON, and the workflow with it.
func WithInput(workflow, handler string, input Input) Option {
	return func(s *Server) { s.services.declare(workflow).handlers[handler] = input }
}

// WithPrivate declares a workflow, like [WithWorkflow], that the ingress refuses to start because it is not public.
func WithPrivate(name string, handlers ...string) Option {
	return func(s *Server) {
		s.Register(name, handlers...)
		s.services.declare(name).private = true
	}
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
