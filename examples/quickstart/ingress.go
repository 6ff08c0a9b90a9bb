package main

import (
	"context"
	"net/http"
	"time"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/restatetest"
)

// ingress is where workflows are started, and the witness of which ones were. A *restatetest.Server is one.
type ingress interface {
	URL() string
	Client() *http.Client
	Down()
	Up()
	StartedKeys(workflow string) []string
	Duplicates() int
	Close()
}

const lostAnswers = 3

// openIngress takes the ingress of the config, or one inside this process.
func openIngress(config config) ingress {
	if config.ingress == "" {
		server := restatetest.Start(restatetest.WithWorkflow(workflow, config.handler))
		// Some answers get lost on their way back: those starts are sent again, and known by then.
		for n := range lostAnswers {
			server.Script(claimID(config, n*claimEvery+claimEvery-1), restatetest.DropAfterAccept())
		}
		return server
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // documented to be one
	transport.MaxIdleConnsPerHost = config.partitions * restatestart.DefaultMaxParallelism
	return &remoteIngress{url: config.ingress, transport: transport, started: map[string]bool{}}
}

// outage takes the ingress down for a while, in the middle of the publishing.
func outage(ctx context.Context, duration time.Duration, ingress ingress, screen *screen) error {
	if duration == 0 {
		return nil
	}
	if err := sleep(ctx, lead); err != nil {
		return err
	}
	screen.eventf("the ingress goes down for %v", duration)
	ingress.Down()
	if err := sleep(ctx, duration); err != nil {
		return err
	}
	screen.eventf("the ingress is up again")
	ingress.Up()
	return nil
}
