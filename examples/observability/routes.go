package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/redisevents/restatestart"
)

// routes are what the service answers: to Prometheus, to whatever restarts it, and to whoever is called at night.
func routes(registry *prometheus.Registry, consumer interface{ Status() restatestart.Status }) http.Handler {
	health := restatestart.Health(consumer)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("GET /livez", health)
	mux.Handle("GET /readyz", health)
	return mux
}
