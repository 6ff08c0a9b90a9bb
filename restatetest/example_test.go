package restatetest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/redisevents/restatestart/restatetest"
)

// start stands for the code under test: it starts one bonus payout and tells what came of it.
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

// The answer to a start gets lost. Starting it again is safe: it is the same start.
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
