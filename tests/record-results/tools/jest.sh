node_tools "${JEST_FOLDER:-jest}" "${JEST:-jest}"
run_jest() { record "${JEST_FOLDER:-jest}" "$1" env NODE_OPTIONS=--experimental-vm-modules NODE_NO_WARNINGS=1 jest "${@:2}"; }
source "$here/tools/js_samples.sh.in"
imports="// globals"
sample; link_node_tools; passing; run_jest all_pass
sample; link_node_tools; one; run_jest one_failure
run_jest colours --colors
run_jest verbose --verbose
sample; link_node_tools; twelve; run_jest twelve_failures
sample; link_node_tools; passing; echo "import './missing.js'" >src/crash.test.js; run_jest import_crash
sample; link_node_tools; echo '{"type":"module"}' >package.json; run_jest no_test
