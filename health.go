package restatestart

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Health answers the probes of whatever runs the service:
//
//	/livez   200 while no Run has ended with an error, else 503: a restart helps
//	/readyz  200 once each consumer has read each of its partitions, else 503: it has not started yet, or runs no more
//
// Both answer with what came of it and the Status of each consumer, as JSON. A partition that is blocked, or that
// OnError has stopped, is alive and ready: it waits for somebody else, and a restart would only make it wait again. A Run that
// ended as it was told to is alive too, so that a service that is shutting down is left alone.
//
// The status names business keys and what the ingress said about them: serve it to those who operate the service, and
// to nobody else. The handler takes GET and HEAD, is safe for concurrent use, and calls neither Redis nor Restate. Behind a
// prefix it wants http.StripPrefix.
func Health(consumers ...interface{ Status() Status }) http.Handler {
	mux := http.NewServeMux()
	serve := func(pattern string, judge func([]Status) (verdict string, well bool)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			health := health{Consumers: make([]Status, 0, len(consumers))}
			for _, consumer := range consumers {
				health.Consumers = append(health.Consumers, consumer.Status())
			}
			var well bool
			health.Status, well = judge(health.Consumers)
			health.write(w, well)
		})
	}
	serve("GET /livez", alive)
	serve("GET /readyz", ready)
	return mux
}

// health is what a probe is answered.
type health struct {
	Status    string   `json:"status"`
	Consumers []Status `json:"consumers"`
}

func (h health) write(w http.ResponseWriter, well bool) {
	body, err := json.MarshalIndent(h, "", "  ")
	if err != nil { // which no Status gives a reason for, and which is none to restart the service
		body = fmt.Appendf(nil, `{"status": %q}`, h.Status)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !well {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(append(body, '\n')) // who asked has gone, if this fails
}

func alive(consumers []Status) (verdict string, well bool) {
	for _, consumer := range consumers {
		if consumer.State == StateStopped && consumer.Error != "" {
			return "dead", false
		}
	}
	return "alive", true
}

func ready(consumers []Status) (verdict string, well bool) {
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
