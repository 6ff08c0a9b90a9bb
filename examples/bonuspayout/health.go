package main

import (
	"encoding/json"
	"net/http"

	"github.com/redisevents/restatestart"
)

// healthHandler answers /livez for whatever restarts the service, and /status for whoever wants to know more. Status
// names claims and what the ingress said about them: keep it inside.
func healthHandler(status func() restatestart.Status) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		// A blocked partition is alive: it waits for somebody else to recover, and a restart would not help it.
		state := status().State
		if state == restatestart.StateStopped {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(state + "\n")) // the one who asked has gone, if this fails
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		body, err := json.MarshalIndent(status(), "", "  ")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append(body, '\n'))
	})
	return mux
}
