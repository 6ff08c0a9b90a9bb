package main

import (
	"cmp"
	"fmt"
	"time"
)

type config struct {
	redisAddr string
	ingress   string
	httpAddr  string
	keyPrefix string
	holdMax   time.Duration // zero means the library's default
	tracing   bool          // the exporter reads its endpoint from the environment itself
}

// readConfig treats an empty variable as unset.
func readConfig(getenv func(string) string) (config, error) {
	holdMax, err := time.ParseDuration(cmp.Or(getenv("HOLD_MAX"), "0"))
	if err != nil {
		return config{}, fmt.Errorf("HOLD_MAX: %w", err)
	}
	return config{
		redisAddr: cmp.Or(getenv("REDIS_ADDR"), "localhost:6379"),
		ingress:   cmp.Or(getenv("RESTATE_INGRESS"), "http://localhost:8080"),
		httpAddr:  cmp.Or(getenv("HTTP_ADDR"), ":8090"),
		keyPrefix: getenv("KEY_PREFIX"),
		holdMax:   holdMax,
		tracing:   cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), getenv("OTEL_EXPORTER_OTLP_ENDPOINT")) != "",
	}, nil
}
