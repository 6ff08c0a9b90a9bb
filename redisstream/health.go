package redisstream

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Health serves liveness and readiness probes:
//
//	/livez   200 while no Run has ended with an error, else 503: a restart helps
//	/readyz  200 once each consumer has read each of its partitions, else 503: it is starting, or has stopped
//
// Both answer with a verdict and the Status of each consumer, as JSON. A partition that is blocked, or stopped by OnError,
// is alive and ready: it waits for something outside the service, and a restart would only make it wait again. A Run that
// was cancelled is alive too, so that a service that shuts down is left alone.
//
// The status names business keys and errors of the ingress about them: serve it only to those who operate the service.
// The handler accepts GET and HEAD, is safe for concurrent use, and calls neither Redis nor Restate. Behind a path prefix
// it needs http.StripPrefix.
func Health(consumers ...interface{ Status() Status }) http.Handler {
	mux := http.NewServeMux()
	serve := func(pattern string, check func([]Status) (verdict string, ok bool)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			health := health{Consumers: make([]Status, 0, len(consumers))}
			for _, consumer := range consumers {
				health.Consumers = append(health.Consumers, consumer.Status())
			}
			var ok bool
			health.Status, ok = check(health.Consumers)
			health.write(w, ok)
		})
	}
	serve("GET /livez", alive)
	serve("GET /readyz", ready)
	return mux
}

// health is the answer to a probe.
type health struct {
	Status    string   `json:"status"`
	Consumers []Status `json:"consumers"`
}

func (h health) write(w http.ResponseWriter, ok bool) {
	body, err := json.MarshalIndent(h, "", "  ")
	if err != nil { // no Status should cause one, and it is no reason to restart the service
		body = fmt.Appendf(nil, `{"status": %q}`, h.Status)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(append(body, '\n')) // an error means that the client has gone
}

func alive(consumers []Status) (verdict string, ok bool) {
	for _, consumer := range consumers {
		if consumer.State == StateStopped && consumer.Error != "" {
			return "dead", false
		}
	}
	return "alive", true
}

func ready(consumers []Status) (verdict string, ok bool) {
	for _, consumer := range consumers {
		switch consumer.State {
		case StateRunning:
		case StateStopped:
			return "stopped", false
		default:
			return "starting", false
		}
		for _, partition := range consumer.Partitions {
			if !partition.Started {
				return "starting", false
			}
		}
	}
	return "ready", true
}
