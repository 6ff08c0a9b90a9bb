package restatestart

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redisevents/restatestart/internal/admin"
	"github.com/redisevents/restatestart/internal/stream"
)

// PreflightState is what came of a preflight.
type PreflightState string

// The states.
const (
	PreflightPending PreflightState = "pending" // not known yet: Run did not begin, or the admin API has not answered
	PreflightPassed  PreflightState = "passed"
	PreflightTrouble PreflightState = "trouble" // there are findings
)

// PreflightStatus is what came of a Run's preflight so far.
type PreflightStatus struct {
	State PreflightState `json:"state"`
	// CheckedAt is when the admin API last told about every workflow. Zero when it has not yet.
	CheckedAt time.Time `json:"checkedAt,omitzero"`
	// Findings are those of that time.
	Findings []PreflightFinding `json:"findings,omitempty"`
	// Error is why the admin API could not be asked, the last time. Empty when it could.
	Error string `json:"error,omitempty"`
}

// PreflightError is what Run returns for the findings of a strict preflight.
type PreflightError struct {
	// Findings has at least one.
	Findings []PreflightFinding
}

// Error is one line that names every finding.
func (e *PreflightError) Error() string {
	return "preflight: " + strings.Join(findingTexts(e.Findings), "; ")
}

func findingTexts(findings []PreflightFinding) []string {
	texts := make([]string, len(findings))
	for i, finding := range findings {
		texts[i] = finding.Text
	}
	return texts
}

// preflight is the check that a Consumer was told to make. A nil one does nothing.
type preflight struct {
	options Preflight
	client  *admin.Client
	ladder  func() stream.Ladder
	log     *slog.Logger

	mu     sync.Mutex
	status PreflightStatus
}

// newPreflight checks the options, which come from ConsumerOptions and have a handler's name to fall back on.
func newPreflight(options ConsumerOptions, handler string, log *slog.Logger) (*preflight, error) {
	if options.Preflight == nil {
		return nil, nil //nolint:nilnil // none was asked for
	}
	p := &preflight{
		log: log, ladder: func() stream.Ladder { return stream.NewLadder(options.HoldMin, options.HoldMax) },
		status: PreflightStatus{State: PreflightPending},
	}
	var err error
	if p.options, err = options.Preflight.withDefaults(handler); err == nil {
		p.client, err = p.options.client()
	}
	if err != nil {
		return nil, fmt.Errorf("Preflight.%w", err)
	}
	return p, nil
}

// begin makes the check of one Run. A strict one is over when it returns, with an error for what was found; until then the
// caller is told with note what it waits for. Any other goes on until the caller calls end, which it always does.
func (p *preflight) begin(ctx context.Context, note func(error)) (end func(), err error) {
	if p == nil {
		return func() {}, nil
	}
	p.show(PreflightStatus{State: PreflightPending})
	if p.options.Strict {
		return func() {}, p.run(ctx, note)
	}
	checking, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.run(checking, func(error) {})
	}()
	return func() {
		stop()
		select {
		case <-ended:
		case <-time.After(stream.StopMargin): // an HTTP client that heeds no context
		}
	}, nil
}

// run checks until everything is right, or the context ends. A strict one returns what it found.
func (p *preflight) run(ctx context.Context, note func(error)) error {
	steps := p.ladder()
	var troubles, silences stream.Seldom
	var before []PreflightFinding
	for {
		findings, err := p.check(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // stopped before it was over, which is no error
		}
		wait := steps.Next()
		switch {
		case err != nil:
			p.unanswered(err)
			note(err)
			if silences.Now() {
				p.log.WarnContext(ctx, "preflight waits for the admin API", slog.Any("error", err), slog.Duration("next", wait))
			}
		case len(findings) == 0:
			p.show(PreflightStatus{State: PreflightPassed, CheckedAt: time.Now()})
			note(nil)
			p.log.InfoContext(ctx, "preflight passed", slog.Int("workflows", len(p.options.Workflows)))
			return nil
		default:
			p.show(PreflightStatus{State: PreflightTrouble, CheckedAt: time.Now(), Findings: findings})
			if troubles.Now() || !slices.Equal(findings, before) {
				p.log.ErrorContext(ctx, "preflight found trouble", slog.Any("findings", findingTexts(findings)))
			}
			before = findings
			if p.options.Strict {
				return &PreflightError{Findings: findings}
			}
		}
		if !stream.Sleep(ctx, wait) {
			return nil
		}
	}
}

func (p *preflight) show(status PreflightStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = status
}

// unanswered keeps what was found before.
func (p *preflight) unanswered(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Error = errorLine(err)
}

// now is what came of it so far, nil where there is no preflight.
func (p *preflight) now() *PreflightStatus {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	status := p.status
	status.Findings = slices.Clone(status.Findings)
	return &status
}
