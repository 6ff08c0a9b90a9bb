// Package telemetry is the boundary to the user's OpenTelemetry providers, propagators and log handlers. Panics of theirs are
// caught and logged here, in the methods of [Guard], [Span], [Counter] and the like: telemetry must neither lose nor repeat a
// start. With providers that record nothing these methods allocate nothing.
package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"go.opentelemetry.io/otel/propagation"
)

// Guard makes guarded counterparts of providers, and logs their panics. It is safe for concurrent use.
type Guard struct {
	logger *slog.Logger

	mu      sync.Mutex
	limiter LogLimiter
}

// NewGuard returns a Guard that logs "telemetry panicked" to a logger, at most once per LogInterval. Nil logs nothing.
func NewGuard(logger *slog.Logger) *Guard {
	if logger == nil {
		return &Guard{logger: slog.New(slog.DiscardHandler)}
	}
	return &Guard{logger: slog.New(guardedHandler{logger.Handler()})}
}

// Logger is a logger whose handler's panics are ignored.
func (g *Guard) Logger() *slog.Logger { return g.logger }

// Inject writes the trace context of ctx into a carrier.
func (g *Guard) Inject(ctx context.Context, propagator propagation.TextMapPropagator, carrier propagation.TextMapCarrier) {
	defer g.catch()
	propagator.Inject(ctx, carrier)
}

// catch ends a panic and logs it. It has to be deferred directly.
func (g *Guard) catch() {
	reason := recover()
	if reason == nil {
		return
	}
	g.mu.Lock()
	log := g.limiter.Allow()
	g.mu.Unlock()
	if log {
		g.logger.Error("telemetry panicked", slog.String("panic", fmt.Sprint(reason)))
	}
}

// guardedHandler ignores the panics of a log handler: there is nowhere to log them.
type guardedHandler struct{ handler slog.Handler }

func ignorePanic() { _ = recover() }

func (h guardedHandler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	defer ignorePanic()
	return h.handler.Enabled(ctx, level)
}

func (h guardedHandler) Handle(ctx context.Context, record slog.Record) error {
	defer ignorePanic()
	return h.handler.Handle(ctx, record)
}

func (h guardedHandler) WithAttrs(attributes []slog.Attr) (derived slog.Handler) {
	derived = h //nolint:wastedassign // what is returned after a panic
	defer ignorePanic()
	return guardedHandler{h.handler.WithAttrs(attributes)}
}

func (h guardedHandler) WithGroup(name string) (derived slog.Handler) {
	derived = h //nolint:wastedassign // what is returned after a panic
	defer ignorePanic()
	return guardedHandler{h.handler.WithGroup(name)}
}
