package restatestart

import (
	"context"
	"log/slog"
)

// guarded keeps a panic of somebody else's log handler from ending the process: it is no reason to lose or repeat a
// start, nor is it one to stop a loop.
type guarded struct{ handler slog.Handler }

// guard makes a logger of another one whose handler may panic. Of none it makes a silent one.
func guard(logger *slog.Logger) *slog.Logger {
	if logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(guarded{logger.Handler()})
}

func (g guarded) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	defer passOver()
	return g.handler.Enabled(ctx, level)
}

func (g guarded) Handle(ctx context.Context, record slog.Record) error {
	defer passOver()
	return g.handler.Handle(ctx, record)
}

func (g guarded) WithAttrs(attributes []slog.Attr) slog.Handler {
	return g.or(func() slog.Handler { return g.handler.WithAttrs(attributes) })
}

func (g guarded) WithGroup(name string) slog.Handler {
	return g.or(func() slog.Handler { return g.handler.WithGroup(name) })
}

// or is what a function makes, or the handler as it is where that panics.
func (g guarded) or(derive func() slog.Handler) (derived guarded) {
	defer func() {
		if recover() != nil {
			derived = g
		}
	}()
	return guarded{derive()}
}
