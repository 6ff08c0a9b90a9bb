package main

import (
	"fmt"
	"time"
)

// config is what the environment says.
type config struct {
	redisAddr string
	ingress   string
	httpAddr  string
	keyPrefix string
	holdMax   time.Duration // zero: the library's default
	tracing   bool          // the exporter reads where to, from the same variables
}

// readConfig takes a variable that is set but empty for one that is not set.
func readConfig(getenv func(string) string) (config, error) {
	or := func(name, otherwise string) string {
		if value := getenv(name); value != "" {
			return value
		}
		return otherwise
	}
	c := config{
		redisAddr: or("REDIS_ADDR", "localhost:6379"),
		ingress:   or("RESTATE_INGRESS", "http://localhost:8080"),
		httpAddr:  or("HTTP_ADDR", ":8090"),
		keyPrefix: or("KEY_PREFIX", ""),
		tracing:   or("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", getenv("OTEL_EXPORTER_OTLP_ENDPOINT")) != "",
	}
	if text := getenv("HOLD_MAX"); text != "" {
		var err error
		if c.holdMax, err = time.ParseDuration(text); err != nil {
			return config{}, fmt.Errorf("HOLD_MAX: %w", err)
		}
	}
	return c, nil
}
