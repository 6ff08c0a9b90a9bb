package restatetest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/redisevents/restatestart/restatetest"
)

// start stands for the code under test: it starts one bonus payout and returns the answer's status.
func start(client *http.Client, ingress, claim string) string {
	response, err := client.Post(
		ingress+"/BonusPayout/"+claim+"/run/send", "application/json", strings.NewReader(`{"amount":5}`))
	if err != nil {
		return "no answer"
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.Status
}

func Example() {
	server := restatetest.Start(restatetest.WithWorkflow("BonusPayout")) // in a test: restatetest.New(t, …)
	defer server.Close()

	fmt.Println(start(server.Client(), server.URL(), "claim-7"))
	fmt.Println(start(server.Client(), server.URL(), "claim-7"))
	for _, started := range server.Starts() {
		fmt.Printf("%s/%s runs on %s\n", started.Workflow, started.Key, started.Body)
	}
	fmt.Println(server.Attempts("claim-7"), "attempts,", server.Duplicates(), "duplicate")
	// Output:
	// 202 Accepted
	// 202 Accepted
	// BonusPayout/claim-7 runs on {"amount":5}
	// 2 attempts, 1 duplicate
}

func ExampleServer_Script() {
	server := restatetest.Start()
	defer server.Close()
	server.Script("claim-7", restatetest.Status(503).WithHeader("Retry-After", "2").Times(2))

	for range 3 {
		fmt.Println(start(server.Client(), server.URL(), "claim-7"))
	}
	fmt.Println(start(server.Client(), server.URL(), "claim-8"))
	// Output:
	// 503 Service Unavailable
	// 503 Service Unavailable
	// 202 Accepted
	// 202 Accepted
}

func ExampleServer_Down() {
	server := restatetest.Start()
	defer server.Close()

	server.Down()
	fmt.Println(start(server.Client(), server.URL(), "claim-7"))
	server.Up()
	fmt.Println(start(server.Client(), server.URL(), "claim-7"))
	// Output:
	// no answer
	// 202 Accepted
}

// The answer to a start is lost. Sending it again is safe: it is the same start.
func ExampleDropAfterAccept() {
	server := restatetest.Start()
	defer server.Close()
	server.Script("claim-7", restatetest.DropAfterAccept())

	fmt.Println(start(server.Client(), server.URL(), "claim-7"), server.StartedKeys("BonusPayout"))
	fmt.Println(start(server.Client(), server.URL(), "claim-7"), server.StartedKeys("BonusPayout"))
	// Output:
	// no answer [claim-7]
	// 202 Accepted [claim-7]
}

func ExampleListen() {
	server, err := restatetest.Listen("127.0.0.1:0", restatetest.WithWorkflow("BonusPayout", "Run"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	fmt.Println(start(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, server.URL(), "claim-7"))
	// Output: 404 Not Found
}

// For a minute from the first attempt, a gateway times out. The start behind its timeout was accepted.
func ExampleStep_For() {
	server := restatetest.Start()
	defer server.Close()
	server.Script("claim-7", restatetest.ProxyError(504).AfterAccept().For(time.Minute))

	fmt.Println(start(server.Client(), server.URL(), "claim-7"), server.StartedKeys("BonusPayout"))
	// Output: 504 Gateway Timeout [claim-7]
}

// A repeat starts nothing until Restate has forgotten the first run.
func ExampleServer_Purge() {
	server := restatetest.Start()
	defer server.Close()

	fmt.Println(start(server.Client(), server.URL(), "claim-7"), len(server.Starts()))
	fmt.Println(start(server.Client(), server.URL(), "claim-7"), len(server.Starts()))
	server.Purge("BonusPayout", "claim-7")
	fmt.Println(start(server.Client(), server.URL(), "claim-7"), len(server.Starts()))
	// Output:
	// 202 Accepted 1
	// 202 Accepted 1
	// 202 Accepted 2
}

func ExampleServer_ClientHTTP2() {
	server := restatetest.Start()
	defer server.Close()

	fmt.Println(start(server.ClientHTTP2(), server.URL(), "claim-7"))
	fmt.Println(start(server.Client(), server.URL(), "claim-7"))
	for _, request := range server.Requests() {
		fmt.Println(request.Proto, request.Key, request.Previously)
	}
	// Output:
	// 202 Accepted
	// 202 Accepted
	// HTTP/2.0 claim-7 false
	// HTTP/1.1 claim-7 true
}

// A failed expectation shows both sides. Pass a *testing.T; here it prints.
func ExampleServer_ExpectOrder() {
	server := restatetest.Start()
	defer server.Close()
	for _, claim := range []string{"c-1", "c-3", "c-2"} {
		start(server.Client(), server.URL(), claim)
	}
	server.ExpectOrder(printing{}, "BonusPayout", "c-1", "c-2", "c-3")
	server.ExpectBody(printing{}, "BonusPayout", "c-1", `{"amount":6}`)
	// Output:
	// BonusPayout: 3 keys were started, 3 expected; the first difference is at 2
	// 	         expected  started
	// 	      1  "c-1"     "c-1"
	// 	>     2  "c-2"     "c-3"
	// 	      3  "c-3"     "c-2"
	// BonusPayout/c-1 was started with another body, different from byte 10 on
	// 	expected: {"amount":6}
	// 	     got: {"amount":5}
	// 	                    ^
}

type printing struct{ restatetest.TB }

func (printing) Helper() {}
func (printing) Errorf(format string, args ...any) {
	fmt.Fprintf(os.Stdout, format+"\n", args...)
}

func ExampleWithService() {
	server := restatetest.Start(restatetest.WithService("Mailer", "Send"))
	defer server.Close()

	for range 2 {
		request, _ := http.NewRequestWithContext(context.Background(), http.MethodPost,
			server.URL()+"/Mailer/Send/send", strings.NewReader(`{"to":"x@y.test"}`))
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Idempotency-Key", "mail-1")
		response, err := server.Client().Do(request)
		if err != nil {
			panic(err)
		}
		_ = response.Body.Close()
	}
	fmt.Println(server.StartedKeys("Mailer"), server.Duplicates())
	// Output: [mail-1] 1
}
