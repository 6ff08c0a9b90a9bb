package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	// adminTimeout bounds one request to the admin API.
	adminTimeout = 10 * time.Second
	// adminPatience is how long a request is repeated while the server starts.
	adminPatience = 15 * time.Second
)

// Register registers the services served at serviceURL and returns the id of their deployment. Registering the same URL
// again returns the same id. While the server starts it is tried again for up to 15 s; a refusal is an *AdminError, with
// Code META0003 when the server could not reach serviceURL, which it tries itself for about 2 s.
func (r *Restate) Register(ctx context.Context, serviceURL string) (string, error) {
	var deployment struct {
		ID string `json:"id"`
	}
	err := r.callWhileStarting(ctx, r.admin+"/deployments", map[string]string{"uri": serviceURL}, &deployment)
	if err != nil {
		return "", fmt.Errorf("register %s: %w", serviceURL, err)
	}
	return deployment.ID, nil
}

// Unregister removes a deployment by force, whatever still runs on it. Starts of its workflows are answered with 404
// from then on; keys that were started before are known again once it is registered again.
func (r *Restate) Unregister(ctx context.Context, deployment string) error {
	target := r.admin + "/deployments/" + url.PathEscape(deployment) + "?force=true"
	if err := r.call(ctx, http.MethodDelete, target, nil, nil); err != nil {
		return fmt.Errorf("unregister %s: %w", deployment, err)
	}
	return nil
}

// call makes one request, with body as JSON unless it is nil, and decodes the answer into answer unless that is nil.
// An answer other than 2xx is an *AdminError.
func (r *Restate) call(ctx context.Context, method, target string, body, answer any) error {
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode the request: %w", err)
		}
		reader = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, target, reader)
	if err != nil {
		return fmt.Errorf("build the request: %w", err)
	}
	// Without Accept a query is answered with an Arrow stream.
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := r.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode/100 != 2 {
		return readRefusal(response)
	}
	if answer == nil {
		// Read to its end, so that the connection is used again.
		_, err = io.Copy(io.Discard, response.Body)
	} else {
		err = json.NewDecoder(response.Body).Decode(answer)
	}
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}

// callWhileStarting repeats a POST as long as its outcome is one that a starting server gives: no connection, or a 5xx
// because the partition has no leader yet.
func (r *Restate) callWhileStarting(ctx context.Context, target string, body, answer any) error {
	return poll(ctx, adminPatience, func(ctx context.Context) (bool, error) {
		err := r.call(ctx, http.MethodPost, target, body, answer)
		var refusal *AdminError
		var decoding *json.SyntaxError
		switch {
		case err == nil:
			return true, nil
		case errors.As(err, &refusal):
			return refusal.final(), err
		case errors.As(err, &decoding):
			return true, err
		default:
			return false, err
		}
	})
}
