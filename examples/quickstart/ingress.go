package main

import (
	"context"
	"net/http"
	"time"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/restatetest"
)

// ingress starts workflows and knows which it started. A *restatetest.Server is one.
type ingress interface {
	URL() string
	Client() *http.Client
	Down()
	Up()
	StartedKeys(workflow string) []string // sorted
	Duplicates() int
	Close()
}

const lostAnswers = 3

// openIngress returns the ingress of the config, or a fake in this process.
func openIngress(config config) ingress {
	if config.ingress == "" {
		server := restatetest.Start(restatetest.WithWorkflow(workflow, config.handler))
		// Some answers are lost: those starts are retried, and are duplicates then.
		for n := range lostAnswers {
			server.Script(claimID(config, n*claimEvery+claimEvery-1), restatetest.DropAfterAccept())
		}
		return server
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // documented to be one
	transport.MaxIdleConnsPerHost = config.partitions * restatestart.DefaultMaxParallelism
	return &remoteIngress{url: config.ingress, transport: transport, started: map[string]bool{}}
}

// outage takes the ingress down in the middle of the publishing.
func outage(ctx context.Context, duration time.Duration, ingress ingress, progress *progress) error {
	if duration == 0 {
		return nil
	}
	if err := sleep(ctx, lead); err != nil {
		return err
	}
	progress.eventf("the ingress goes down for %v", duration)
	ingress.Down()
	if err := sleep(ctx, duration); err != nil {
		return err
	}
	progress.eventf("the ingress is up again")
	ingress.Up()
	return nil
}
