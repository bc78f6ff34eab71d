node_tools "${VITEST_FOLDER:-vitest}" "${VITEST:-vitest}"
run_vitest() { record "${VITEST_FOLDER:-vitest}" "$1" env ${VITEST_COLOUR:-NO_COLOR=1} vitest run "${@:2}"; }
source "$here/tools/js_samples.sh.in"
imports="import { describe, expect, it, test, beforeAll } from 'vitest'"
sample; link_node_tools; passing; run_vitest all_pass
sample; link_node_tools; one; run_vitest one_failure
VITEST_COLOUR="FORCE_COLOR=1 CI=1" run_vitest colours
run_vitest verbose --reporter=verbose
run_vitest dot --reporter=dot
sample; link_node_tools; twelve; run_vitest twelve_failures
sample; link_node_tools; passing; echo "import './missing.js'" >src/crash.test.js; run_vitest import_crash
sample; link_node_tools; echo '{"type":"module"}' >package.json; run_vitest no_test
