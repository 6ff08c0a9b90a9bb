package conformance_test

import (
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/conformance"
)

const (
	profileFile = `{"about":"", "profiles":{"p":{"services":[{"name":"Wf","kind":"workflow","handlers":[{"name":"Run","input":"json"}]}]}}}`
	simple      = `{"name":"c","profile":"p","steps":[{"request":{"method":"GET","target":"/"},"answer":{"status":200,"text":""}}]}`
)

// loadCases loads the files with these texts, and one with a profile p.
func loadCases(files ...string) (*conformance.Suite, error) {
	directory := fstest.MapFS{"a.json": {Data: []byte(profileFile)}}
	for i, text := range files {
		directory[string(rune('b'+i))+".json"] = &fstest.MapFile{Data: []byte(text)}
	}
	return conformance.Load(directory)
}

func TestInvalidSuitesAreRejected(t *testing.T) {
	t.Parallel()
	_, err := loadCases(`{"cases":[` + simple + `]}`)
	require.NoError(t, err)

	cases := func(changes ...string) []string {
		return []string{`{"cases":[` + strings.NewReplacer(changes...).Replace(simple) + `]}`}
	}
	step := func(step string) []string {
		return []string{`{"cases":[{"name":"c","profile":"p","steps":[` + step + `]}]}`}
	}
	answer := func(answer string) []string {
		return step(`{"request":{"method":"GET","target":"/"},"answer":` + answer + `}`)
	}
	for name, test := range map[string]struct {
		files []string
		err   string
	}{
		"no cases":                    {nil, "no cases"},
		"unknown field of a file":     {[]string{`{"case":[]}`}, `b.json: json: unknown field "case"`},
		"unknown field of a case":     {cases(`"profile"`, `"profil"`), `b.json: json: unknown field "profil"`},
		"unknown field of a request":  {cases(`"method"`, `"methods"`), `b.json: json: unknown field "methods"`},
		"unknown field of an answer":  {cases(`"text"`, `"body"`), `b.json: json: unknown field "body"`},
		"not JSON":                    {[]string{`{"cases":[`}, `b.json: unexpected EOF`},
		"two values":                  {[]string{`{} {}`}, `b.json: more than one JSON value`},
		"a name twice":                {[]string{`{"cases":[` + simple + `,` + simple + `]}`}, `case "c": a unique name is required`},
		"a name twice, in two files":  {[]string{`{"cases":[` + simple + `]}`, `{"cases":[` + simple + `]}`}, `case "c": a unique name is required`},
		"no name":                     {cases(`"c"`, `""`), `case "": a unique name is required`},
		"unknown profile":             {cases(`"p"`, `"q"`), `case "c": unknown profile "q"`},
		"a profile twice":             {[]string{profileFile}, `b.json: profile "p" is a duplicate`},
		"an answer twice":             {[]string{`{"answers":{"x":{}}}`, `{"answers":{"x":{}}}`}, `c.json: answer "x" is a duplicate`},
		"unknown kind of a service":   {[]string{`{"profiles":{"q":{"services":[{"name":"S","kind":"x","handlers":[{}]}]}}}`, cases()[0]}, `profile "q": service "S": unknown kind "x"`},
		"unknown input of a handler":  {[]string{`{"profiles":{"q":{"services":[{"name":"S","kind":"service","handlers":[{"name":"H","input":"xml"}]}]}}}`, cases()[0]}, `profile "q": handler S/"H": a name and an input of json, none or bytes are required`},
		"a plain service's shared":    {[]string{`{"profiles":{"q":{"services":[{"name":"S","kind":"service","handlers":[{"name":"H","input":"json","shared":true}]}]}}}`, cases()[0]}, `profile "q": handler S/H: a service has no shared handlers`},
		"a negative limit":            {[]string{`{"profiles":{"q":{"bodyLimit":-1}}}`, cases()[0]}, `profile "q": a limit is negative`},
		"a version of two numbers":    {cases(`"p"`, `"p","since":"1.7"`), `case "c": version "1.7" is not three numbers`},
		"an empty range":              {cases(`"p"`, `"p","since":"1.7.4","before":"1.7.4"`), `case "c": no version is from 1.7.4 and before 1.7.4`},
		"an excuse without a reason":  {cases(`"p"`, `"p","fake":"not imitated: "`), `case "c": fake is "not imitated: ", not "not imitated: " and a reason`},
		"an excuse of another form":   {cases(`"p"`, `"p","fake":"later"`), `case "c": fake is "later", not "not imitated: " and a reason`},
		"no steps":                    {step(""), `case "c": no steps`},
		"no request":                  {step(`{"answer":{"status":200,"text":""}}`), `case "c": step 1: a step has either a request or the rest of one`},
		"no method":                   {cases(`"GET"`, `""`), `case "c": step 1: a request needs a method and a target`},
		"no answer":                   {step(`{"request":{"method":"GET","target":"/"}}`), `case "c": step 1: a step has either an answer or hold`},
		"the rest of nothing":         {step(`{"on":"a","rest":"x","answer":{"status":200,"text":""}}`), `case "c": step 1: nothing is held on "a"`},
		"held on no connection":       {step(`{"hold":true,"request":{"method":"GET","target":"/"}}`), `case "c": step 1: hold needs a request on a named connection, without cut`},
		"held without being asked":    {step(`{"on":"a","hold":true,"request":{"method":"GET","target":"/"}}`), `case "c": step 1: a held request needs the header expect: 100-continue`},
		"held and never completed":    {step(`{"on":"a","hold":true,"request":{"method":"GET","target":"/","headers":["expect: 100-continue"]}}`), `case "c": the requests held on ["a"] are never completed`},
		"unknown placeholder, sent":   {cases(`"/"`, `"/{kye}"`), `case "c": step 1: placeholder {kye}: unknown in a request`},
		"repeated without a number":   {cases(`"/"`, `"/{repeat:a}"`), `case "c": step 1: placeholder {repeat:a}: "a" does not end with a number`},
		"no base64":                   {cases(`"/"`, `"/{base64:a}"`), `case "c": step 1: placeholder {base64:a}: illegal base64 data at input byte 0`},
		"unknown placeholder, wanted": {answer(`{"status":200,"json":{"a":["{ID}","{ids}"]}}`), `case "c": step 1: placeholder {ids}: unknown in an answer`},
		"unknown placeholder, header": {answer(`{"status":200,"headers":{"a":"{x}"},"text":""}`), `case "c": step 1: header a: placeholder {x}: unknown in an answer`},
		"no duration":                 {answer(`{"status":200,"text":"{time in 1d}"}`), `case "c": step 1: placeholder {time in 1d}: time: unknown unit "d" in duration "1d"`},
		"no status":                   {answer(`{"text":""}`), `case "c": step 1: an answer needs a status`},
		"unknown status":              {answer(`{"status":299,"text":""}`), `case "c": step 1: unknown status 299`},
		"no body":                     {answer(`{"status":200}`), `case "c": step 1: an answer needs json or text`},
		"two bodies":                  {answer(`{"status":200,"text":"","json":{}}`), `case "c": step 1: an answer has json or text, not both`},
		"null as a body":              {answer(`{"status":200,"json":null}`), `case "c": step 1: json cannot be null`},
		"a header in capitals":        {answer(`{"status":200,"headers":{"Vary":null},"text":""}`), `case "c": step 1: header "Vary" is not in lower case`},
		"an unknown answer":           {answer(`{"is":"x"}`), `case "c": step 1: no answer "x"`},
		"a cycle of answers":          {append(answer(`{"is":"x"}`), `{"answers":{"x":{"is":"y"},"y":{"is":"x"}}}`), `case "c": step 1: answer "x" builds on itself`},
		"versions without a bound":    {answer(`{"status":200,"text":"","versions":[{"answer":{}}]}`), `case "c": step 1: an entry of versions needs since or before`},
		"versions of a version":       {answer(`{"status":200,"text":"","versions":[{"since":"1.0.0","answer":{"versions":[{}]}}]}`), `case "c": step 1: an entry of versions has no versions of its own`},
		"incomplete in some version":  {answer(`{"status":200,"text":"","versions":[{"before":"1.0.0","answer":{"is":"x"}}]}`), `case "c": step 1: no answer "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := loadCases(test.files...)
			require.EqualError(t, err, test.err)
		})
	}
}

func TestAnswersChangeWithTheVersion(t *testing.T) {
	t.Parallel()
	suite, err := loadCases(`{"answers":{
		"refused":{"headers":{"x-source":"ingress"},"json":{"source":"ingress"},
			"versions":[{"before":"1.7.4","answer":{"headers":{"x-source":null},"json":{"code":null,"source":null}}}]},
		"not found":{"is":"refused","status":404,"json":{"code":404,"message":"not found"}}}}`,
		`{"cases":[{"name":"c","profile":"p","steps":[{"request":{"method":"GET","target":"/"},"answer":
			{"is":"refused","status":400,"json":{"code":400,"message":"bad"},"versions":[
				{"before":"1.7.0","answer":{"is":"not found"}},
				{"since":"1.8.0","before":"2.0.0","answer":{"status":422,"text":"bad"}}]}}]}]}`)
	require.NoError(t, err)
	source := map[string]*string{"x-source": new("ingress")}
	none := map[string]*string{"x-source": nil}
	bad := map[string]any{"code": 400.0, "message": "bad", "source": "ingress"}
	for version, want := range map[string]conformance.Expectation{
		"1.6.2":     {Status: 404, Headers: none, JSON: map[string]any{"message": "not found"}},
		"1.7.0":     {Status: 400, Headers: none, JSON: map[string]any{"message": "bad"}},
		"1.7.3":     {Status: 400, Headers: none, JSON: map[string]any{"message": "bad"}},
		"1.7.4":     {Status: 400, Headers: source, JSON: bad},
		"1.7.12":    {Status: 400, Headers: source, JSON: bad},
		"1.8.0-dev": {Status: 422, Headers: source, Text: new("bad")},
		"2.0.0":     {Status: 400, Headers: source, JSON: bad},
	} {
		got, err := suite.Cases[0].Expect(suite.Cases[0].Steps[0].Answer, version)
		require.NoError(t, err)
		assert.Equal(t, want, got, version)
	}
}

func TestRangesCompareVersionsByNumber(t *testing.T) {
	t.Parallel()
	for version, covered := range map[string]bool{
		"1.7.3": false, "1.7.4": true, "1.7.12": true, "1.8.0": true, "1.9.99": true, "1.10.0": false, "2.0.0": false, "0.9.0": false,
	} {
		assert.Equal(t, covered, conformance.Range{Since: "1.7.4", Before: "1.10.0"}.Covers(version), version)
		assert.True(t, conformance.Range{}.Covers(version))
	}
}

func TestTheSuiteHasManyCasesWithUniqueKeys(t *testing.T) {
	t.Parallel()
	suite := load(t)
	assert.GreaterOrEqual(t, len(suite.Cases), 90)
	placeless := regexp.MustCompile(`^/(?:restate/send/)?Wf/(?:|\.|\.\.|%2e|%2e%2e)/Run`)
	for _, c := range suite.Cases {
		for i, step := range c.Steps {
			if step.Answer == nil || step.Request == nil || step.Answer.Is != "accepted" {
				continue
			}
			sent := step.Request.Target + strings.Join(step.Request.Headers, "\n")
			unique := strings.Contains(sent, "{key}") || placeless.MatchString(sent) ||
				strings.Contains(sent, "Svc/Do") && !strings.Contains(sent, "idempotency-key")
			assert.True(t, unique, "case %q, step %d could be accepted once only: %s", c.Name, i+1, sent)
		}
	}
}
