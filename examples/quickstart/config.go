package main

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"time"

	"github.com/redisevents/restatestart"
)

type config struct {
	redis      string
	ingress    string
	handler    string
	bets       int
	partitions int
	outage     time.Duration
	run        string // identifies this run, so that runs on the same servers do not interfere
}

// parse exits on unknown flags and on -help.
func parse(args []string) (config, error) {
	c := config{run: strconv.FormatInt(time.Now().UnixMilli(), 36)}
	flags := flag.NewFlagSet("quickstart", flag.ExitOnError)
	flags.StringVar(&c.redis, "redis", "", "`address` of a Redis, such as localhost:6379 (default: a fake in this process)")
	flags.StringVar(&c.ingress, "ingress", "", "`URL` of a Restate ingress, such as http://localhost:8080 (default: a fake in this process)")
	flags.StringVar(&c.handler, "handler", restatestart.DefaultHandler, "`name` of the workflow's handler")
	flags.IntVar(&c.bets, "n", 10_000, "how many bets to publish")
	flags.IntVar(&c.partitions, "partitions", 4, "how many partitions the topic has")
	flags.DurationVar(&c.outage, "outage", 5*time.Second, "how long the ingress is down, 0 for no outage")
	if err := flags.Parse(args); err != nil {
		return config{}, err
	}
	switch {
	case flags.NArg() > 0:
		return config{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case c.bets < 1:
		return config{}, errors.New("-n must be at least 1")
	case c.partitions < 1:
		return config{}, errors.New("-partitions must be at least 1")
	case c.outage < 0:
		return config{}, errors.New("-outage must not be negative")
	}
	return c, nil
}

// keyPrefix is the prefix of this run's Redis keys.
func (c config) keyPrefix() string { return "quickstart-" + c.run + ":" }
