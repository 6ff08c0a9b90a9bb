package redisstream

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redisevents/restatestart/internal/backoff"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/telemetry"
	"github.com/redisevents/restatestart/internal/text"
	"github.com/redisevents/restatestart/preflight"
)

// PreflightState is the outcome of a preflight.
type PreflightState string

// The states.
const (
	PreflightPending PreflightState = "pending" // not known yet: Run has not begun, or the admin API has not answered
	PreflightPassed  PreflightState = "passed"
	PreflightFailed  PreflightState = "failed" // there are findings
)

// PreflightStatus is the outcome of a Run's preflight so far.
type PreflightStatus struct {
	State PreflightState `json:"state"`
	// CheckedAt is when the admin API last answered about every workflow. Zero when it has not yet.
	CheckedAt time.Time `json:"checkedAt,omitzero"`
	// Findings are those of that time.
	Findings []preflight.Finding `json:"findings,omitempty"`
	// Error is why the last request to the admin API failed. Empty when it did not.
	Error string `json:"error,omitempty"`
}

// preflightRun repeats the check of Options.Preflight until it passes. A nil one does nothing.
type preflightRun struct {
	checker          *preflight.Checker
	workflows        int
	strict           bool
	holdMin, holdMax time.Duration
	log              *slog.Logger

	mu     sync.Mutex
	status PreflightStatus
}

func newPreflightRun(options Options, handler string, log *slog.Logger) (*preflightRun, error) {
	if options.Preflight == nil {
		return nil, nil //nolint:nilnil // none was asked for
	}
	checks := *options.Preflight
	if checks.Handler == "" {
		checks.Handler = handler
	}
	checker, err := preflight.New(checks)
	if err != nil {
		return nil, err
	}
	return &preflightRun{
		checker: checker, workflows: len(checks.Workflows), strict: options.StrictPreflight,
		holdMin: options.HoldMin, holdMax: options.HoldMax, log: log, status: PreflightStatus{State: PreflightPending},
	}, nil
}

// begin begins the preflight of one Run. A strict one has ended when it returns, with an error for its findings; until
// then report is called with what it waits for. Any other continues until the caller calls end, which it always does.
func (p *preflightRun) begin(ctx context.Context, report func(error)) (end func(), err error) {
	if p == nil {
		return func() {}, nil
	}
	p.show(PreflightStatus{State: PreflightPending})
	if p.strict {
		return func() {}, p.run(ctx, report)
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
		case <-time.After(stream.StopMargin): // an HTTP client that ignores its context
		}
	}, nil
}

// run checks until the preflight passes, or the context ends. A strict one returns its findings.
func (p *preflightRun) run(ctx context.Context, report func(error)) error {
	waits := backoff.New(p.holdMin, p.holdMax, 0)
	var failedLogged, unansweredLogged telemetry.LogLimiter
	var before []preflight.Finding
	for {
		err := p.checker.Check(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // stopped before it ended, which is no error
		}
		wait := waits.Next()
		failed, hasFindings := errors.AsType[*preflight.Error](err)
		switch {
		case hasFindings:
			p.show(PreflightStatus{State: PreflightFailed, CheckedAt: time.Now(), Findings: failed.Findings})
			if failedLogged.Allow() || !slices.Equal(failed.Findings, before) {
				p.log.ErrorContext(ctx, "preflight failed", slog.Any("findings", findingTexts(failed.Findings)))
			}
			before = failed.Findings
			if p.strict {
				return failed
			}
		case err != nil:
			p.setUnanswered(err)
			report(err)
			if unansweredLogged.Allow() {
				p.log.WarnContext(ctx, "preflight waiting for the admin API", slog.Any("error", err), slog.Duration("next", wait))
			}
		default:
			p.show(PreflightStatus{State: PreflightPassed, CheckedAt: time.Now()})
			report(nil)
			p.log.InfoContext(ctx, "preflight passed", slog.Int("workflows", p.workflows))
			return nil
		}
		if !backoff.Sleep(ctx, wait) {
			return nil
		}
	}
}

func findingTexts(findings []preflight.Finding) []string {
	texts := make([]string, len(findings))
	for i, finding := range findings {
		texts[i] = finding.Text
	}
	return texts
}

func (p *preflightRun) show(status PreflightStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = status
}

// setUnanswered records an error and keeps the earlier findings.
func (p *preflightRun) setUnanswered(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Error = text.ErrorLine(err)
}

// snapshot is the outcome so far, nil when there is no preflight.
func (p *preflightRun) snapshot() *PreflightStatus {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	status := p.status
	status.Findings = slices.Clone(status.Findings)
	return &status
}
