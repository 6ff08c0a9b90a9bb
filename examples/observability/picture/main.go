// Picture draws ../panels.png: the main panels of the dashboard before, during and after an outage of Restate.
//
// It runs the service of examples/observability with a redis-server and an imitated ingress, has a prometheus scrape it and
// evaluate alerts.yml, and asks that prometheus for the expressions that dashboard.json has under the panels' titles. That
// takes about ten minutes, because an alert that waits five minutes is to be seen. redis-server and prometheus must be
// installed (`make tools`), and it is run in its own directory (`make picture`).
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sync/errgroup"
)

// The panels, in the order of reading, and how many stand side by side.
var panels = [...]string{ //nolint:gochecknoglobals // a constant
	"Attempts by outcome", "Held for", "Age of the oldest message", "Lag in entries", "Messages per second", "Reads per second",
}

const columns = 2

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, "../dashboard.json", "../alerts.yml", "../panels.png"); err != nil {
		log.Print(err)
	}
}

func run(ctx context.Context, dashboard, alerts, picture string) error {
	board, err := readBoard(dashboard)
	if err != nil {
		return err
	}
	chosen, err := board.choose(panels[:])
	if err != nil {
		return err
	}
	world, err := startWorld(ctx, alerts)
	if err != nil {
		return err
	}
	defer world.close()

	log.Printf("prometheus is at %s", world.prometheus)
	traffic, end := context.WithCancel(ctx)
	defer end()
	var publishing errgroup.Group
	publishing.Go(func() error { return world.publish(traffic) })
	story, err := world.play(ctx)
	end()
	if err != nil {
		return err
	}
	if err := publishing.Wait(); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	for i := range chosen {
		if err := world.ask(ctx, &chosen[i], story); err != nil {
			return fmt.Errorf("panel %s: %w", chosen[i].title, err)
		}
	}
	alarms, err := world.alarms(ctx, story)
	if err != nil {
		return err
	}
	if err := paint(picture, chosen, story, alarms); err != nil {
		return fmt.Errorf("draw: %w", err)
	}
	log.Printf("drew %s, of %s", picture, story.end().Sub(story.begin()).Round(time.Second))
	return nil
}
