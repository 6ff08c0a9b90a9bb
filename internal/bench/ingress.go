package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redisevents/restatestart/internal/bench/child"
	"github.com/redisevents/restatestart/internal/bench/contender"
	"github.com/redisevents/restatestart/internal/bench/sink"
	"github.com/redisevents/restatestart/internal/e2e/payout"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// ingress is where starts go, and the proof that they came.
type ingress interface {
	url() string
	// expect says that the keys prefix0 to prefix(count-1) will come next.
	expect(ctx context.Context, prefix string, count int) error
	// prove returns an error unless exactly those came.
	prove(ctx context.Context, prefix string, count int) error
	close() error
}

// null is a null ingress in a process of its own.
type null struct {
	process *child.Process
	address string
}

// expectation is what the sink's process is asked: for its address when it is empty, for its counts without a prefix.
type expectation struct {
	Prefix string
	Count  int
	Report bool
}

// serveSink is the main of the sink's process.
func serveSink() error {
	server, err := sink.Listen()
	if err != nil {
		return err
	}
	err = child.Serve(func(raw json.RawMessage) (any, error) {
		var asked expectation
		if err := json.Unmarshal(raw, &asked); err != nil {
			return nil, err
		}
		switch {
		case asked.Report:
			return server.Counts(), nil
		case asked.Prefix != "":
			server.Expect(asked.Prefix, asked.Count)
		}
		return server.URL(), nil
	})
	return errors.Join(err, server.Close())
}

func startNull(ctx context.Context) (*null, error) {
	process, err := child.Start(roleSink, "sink")
	if err != nil {
		return nil, err
	}
	n := &null{process: process}
	if err := process.Call(ctx, expectation{}, &n.address); err != nil {
		return nil, errors.Join(err, process.Close())
	}
	return n, nil
}

func (n *null) url() string { return n.address }

func (n *null) expect(ctx context.Context, prefix string, count int) error {
	return n.process.Call(ctx, expectation{Prefix: prefix, Count: count}, &n.address)
}

func (n *null) prove(ctx context.Context, _ string, count int) error {
	var counts sink.Counts
	if err := n.process.Call(ctx, expectation{Report: true}, &counts); err != nil {
		return err
	}
	if want := (sink.Counts{Distinct: count}); counts != want {
		return &unproven{fmt.Sprintf("of %d starts the sink got %d, %d of them again, and %d strays", count, counts.Distinct, counts.Duplicates, counts.Strays)}
	}
	return nil
}

func (n *null) close() error { return n.process.Close() }

// restate is a restate-server that knows the workflow. It never runs any: starts come with a delay.
type restate struct {
	server  *servers.Restate
	service *payout.Service
}

func startReal(ctx context.Context) (*restate, error) {
	server, err := servers.LaunchRestate(ctx, servers.RestateOptions{})
	if err != nil {
		return nil, err
	}
	service, err := payout.NewService(contender.Workflow)
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	r := &restate{server: server, service: service}
	if _, err := server.Register(ctx, service.URL()); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *restate) url() string { return r.server.Ingress() }

func (r *restate) expect(context.Context, string, int) error { return nil }

// prove asks the server for its invocations. A start that came twice does not show there: Restate has one invocation a
// key. The null ingress proves that no contender sends any twice.
func (r *restate) prove(ctx context.Context, prefix string, count int) error {
	rows, err := r.server.Query(ctx, "SELECT count(*) AS n, count(DISTINCT target_service_key) AS k FROM sys_invocation_status"+
		" WHERE target_service_name = '"+contender.Workflow+"' AND target_service_key LIKE '"+prefix+"%'")
	if err != nil {
		return err
	}
	if len(rows) != 1 || rows[0]["n"] != float64(count) || rows[0]["k"] != float64(count) {
		return &unproven{fmt.Sprintf("of %d starts restate-server has %v", count, rows)}
	}
	return nil
}

func (r *restate) close() error { return errors.Join(r.server.Close(), r.service.Close()) }

// nowhere is for contenders that start nothing, or count for themselves.
type nowhere struct{}

func (nowhere) url() string                               { return "http://127.0.0.1:1" }
func (nowhere) expect(context.Context, string, int) error { return nil }
func (nowhere) prove(context.Context, string, int) error  { return nil }
func (nowhere) close() error                              { return nil }

// unproven says that starts were lost or sent twice.
type unproven struct{ text string }

func (u *unproven) Error() string { return u.text }
