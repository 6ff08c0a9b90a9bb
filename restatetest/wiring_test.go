package restatetest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/restatetest"
)

type betSettled struct {
	ClaimID string
	Cents   int
}

func hasClaim(m *restatestart.Message[betSettled]) bool { return m.Value.ClaimID != "" }

func toPayout(m *restatestart.Message[betSettled]) (restatestart.Start, error) {
	return restatestart.Start{Workflow: "BonusPayout", Key: m.Value.ClaimID, Input: map[string]int{"cents": m.Value.Cents}}, nil
}

// Your own Keep and Map against the fake ingress: what is started, under which key, with which body.
func Example_wiring() {
	restate := restatetest.Start(restatetest.WithWorkflow("BonusPayout")) // in a test: restatetest.New(t, …)
	defer restate.Close()
	starter, err := restatestart.New(hasClaim, toPayout, restatestart.Options{Ingress: restate.URL(), HTTPClient: restate.Client()})
	if err != nil {
		panic(err)
	}
	err = starter.Handle(context.Background(), []restatestart.Message[betSettled]{
		{ID: "1-0", Value: betSettled{Cents: 100}},
		{ID: "2-0", Value: betSettled{ClaimID: "claim-7", Cents: 500}},
	})
	fmt.Println("error:", err)
	for _, start := range restate.Starts() {
		fmt.Println(start.Workflow, start.Key, string(start.Body))
	}
	// Output:
	// error: <nil>
	// BonusPayout claim-7 {"cents":500}
}

// untilStarted stands for a service that retries every two seconds.
func untilStarted(ctx context.Context, client *http.Client, ingress, key string) error {
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost,
			ingress+"/BonusPayout/"+key+"/run/send", strings.NewReader(`{"cents":500}`))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		if response, err := client.Do(request); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusAccepted {
				return nil
			}
		}
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// An outage of ten minutes takes no time in a synctest bubble.
func TestAStartSurvivesAnOutageOfTenMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		restate := restatetest.New(t, restatetest.WithWorkflow("BonusPayout"))
		restate.Down()
		time.AfterFunc(10*time.Minute, restate.Up)

		began := time.Now()
		require.NoError(t, untilStarted(t.Context(), restate.Client(), restate.URL(), "claim-7"))
		assert.WithinDuration(t, began.Add(10*time.Minute), time.Now(), 2*time.Second)
		restate.ExpectStarted(t, "BonusPayout", "claim-7")
	})
}

// However the answer of the first attempt is lost, there is one start.
func TestAStartSurvivesALostAnswer(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]restatetest.Step{
		"no answer":     restatetest.DropAfterAccept(),
		"status only":   restatetest.DropAfterStatus(),
		"too late":      restatetest.HangAfterAccept(),
		"proxy gave up": restatetest.ProxyError(504).AfterAccept(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				restate := restatetest.New(t, restatetest.WithWorkflow("BonusPayout"))
				restate.Script("claim-7", lost)
				client := restate.Client()
				client.Timeout = 10 * time.Second

				require.NoError(t, untilStarted(t.Context(), client, restate.URL(), "claim-7"))
				assert.Equal(t, 2, restate.Attempts("claim-7"))
				assert.Equal(t, 1, restate.Duplicates())
				restate.ExpectOrder(t, "BonusPayout", "claim-7")
				restate.ExpectBody(t, "BonusPayout", "claim-7", `{"cents":500}`)
			})
		})
	}
}

// A proxy answers for the first minute. The Starter retries, then returns a BlockedError; its caller delivers the batch again.
func TestAStarterOutlastsTheErrorsOfAProxy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		restate := restatetest.New(t, restatetest.WithWorkflow("BonusPayout"))
		restate.ScriptAll(restatetest.ProxyError(502).For(time.Minute))
		starter, err := restatestart.New(hasClaim, toPayout, restatestart.Options{Ingress: restate.URL(), HTTPClient: restate.ClientHTTP2()})
		require.NoError(t, err)

		batch := []restatestart.Message[betSettled]{{ID: "2-0", Value: betSettled{ClaimID: "claim-7", Cents: 500}}}
		began := time.Now()
		err = starter.Handle(t.Context(), batch)
		for blocked := (*restatestart.BlockedError)(nil); errors.As(err, &blocked); err = starter.Handle(t.Context(), batch) {
			time.Sleep(time.Second)
		}
		require.NoError(t, err)
		assert.GreaterOrEqual(t, time.Since(began), time.Minute)
		restate.ExpectStarted(t, "BonusPayout", "claim-7")
	})
}
