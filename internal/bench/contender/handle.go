package contender

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/redisstream"
)

// handle counts what Starter.Handle allocates for a kept message on a canned transport, and what a bare request with
// the same input on the same transport does.
type handle struct {
	starter  *restatestart.Starter[bet]
	messages []restatestart.Message[bet]
	client   *http.Client
}

// What the contender Handle measures, in Figures.Values.
const (
	HandleAllocs = "allocations per kept message"
	BareAllocs   = "allocations per bare request"
)

const cannedIngress = "http://restate:8080"

type canned func(*http.Request) (*http.Response, error)

func (c canned) RoundTrip(request *http.Request) (*http.Response, error) { return c(request) }

func answer(request *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, request.Body)
	return &http.Response{
		StatusCode: http.StatusAccepted, ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Body: io.NopCloser(strings.NewReader(`{"invocationId":"inv_16XXZZesSodW3oxGkV5Usr1kzxtNLm78YS","status":"Accepted"}`)),
	}, nil
}

func newHandle(context.Context) (*handle, error) {
	client := &http.Client{Transport: canned(answer)}
	starter, err := restatestart.New(nil, payoutOf, restatestart.Options{Ingress: cannedIngress, HTTPClient: client})
	h := &handle{starter: starter, client: client}
	for n := range batch {
		entry := redis.XMessage{ID: "1-1", Values: map[string]any{"b": Body(n, BodySize), "t": Wanted, "k": ""}}
		message, err := redisstream.NewMessage("s", 0, entry, redisstream.JSON[bet])
		if err != nil {
			return nil, err
		}
		h.messages = append(h.messages, message)
	}
	return h, err
}

func payoutOf(message *restatestart.Message[bet]) (restatestart.Start, error) {
	return restatestart.Start{
		Workflow: Workflow, Key: message.Value.Claim, Input: payout{BetID: message.Value.ID, Amount: message.Value.Amount},
	}, nil
}

func (h *handle) round(ctx context.Context, _ string, watch *stopwatch) error {
	const runs = 100
	var failed error
	handled := testing.AllocsPerRun(runs, func() { failed = errors.Join(failed, h.starter.Handle(ctx, h.messages)) })
	bare := testing.AllocsPerRun(runs, func() {
		for i := range h.messages {
			value := &h.messages[i].Value
			body, err := json.Marshal(payout{BetID: value.ID, Amount: value.Amount})
			if err == nil {
				err = post(ctx, h.client, cannedIngress+"/"+Workflow+"/"+value.Claim+"/"+Handler+"/send", body)
			}
			failed = errors.Join(failed, err)
		}
	})
	watch.figures.Values = map[string]float64{HandleAllocs: handled / batch, BareAllocs: bare / batch}
	return failed
}

func (h *handle) close() error { return nil }
