//! Python: ruff, mypy, pytest, tox, nox, in a virtual environment, with uv, poetry or pdm.

use super::{GateKind, Project, Proposal, has_section};

pub(super) fn python(project: &Project) -> Vec<Proposal> {
    let pyproject = project.text("pyproject.toml");
    let requirements = ["requirements.txt", "requirements-dev.txt"].map(|name| project.text(name)).concat();
    let runner = match () {
        () if project.has("uv.lock") => "uv run ",
        () if project.has("poetry.lock") => "poetry run ",
        () if project.has("pdm.lock") => "pdm run ",
        () => "",
    };
    // The project's own tools, whether or not its environment is activated.
    let venv = project.first(&[".venv", "venv"]);
    let call = |tool: &str, because: String| match venv {
        Some(venv) if runner.is_empty() && project.has(&format!("{venv}/bin/{tool}")) => {
            (format!("{venv}/bin/{tool}"), format!("{because}; {venv}/bin/{tool}"))
        }
        _ => (format!("{runner}{tool}"), because),
    };
    let section = |name: &str| has_section(pyproject, name).then(|| format!("[{name}] in pyproject.toml"));
    let mut found = Vec::new();
    let ruff =
        project.first(&["ruff.toml", ".ruff.toml"]).map(str::to_owned).or_else(|| section("tool.ruff"));
    if let Some(because) = ruff {
        let (ruff, because) = call("ruff", because);
        found.push(Proposal::new(GateKind::Lint, "ruff", format!("{ruff} check ."), because));
    }
    let mypy = project.first(&["mypy.ini", ".mypy.ini"]).map(str::to_owned).or_else(|| section("tool.mypy"));
    let mypy =
        mypy.or_else(|| has_section(project.text("setup.cfg"), "mypy").then(|| "[mypy] in setup.cfg".into()));
    if let Some(because) = mypy {
        let (mypy, because) = call("mypy", because);
        // Its own settings say what to check.
        let own = [pyproject, project.text("mypy.ini"), project.text(".mypy.ini"), project.text("setup.cfg")];
        let files = if own.iter().any(|text| names_files(text)) { "" } else { " ." };
        found.push(Proposal::new(GateKind::Types, "mypy", format!("{mypy}{files}"), because));
    }
    let pytest =
        project.first(&["pytest.ini", "conftest.py"]).map(str::to_owned).or_else(|| section("tool.pytest"));
    let pytest = pytest.or_else(|| {
        let places = [("setup.cfg", "tool:pytest"), ("tox.ini", "pytest")];
        let (file, name) = places.into_iter().find(|(file, name)| has_section(project.text(file), name))?;
        Some(format!("[{name}] in {file}"))
    });
    let pytest = pytest.or_else(|| mentions_pytest(pyproject, "pyproject.toml"));
    let pytest = pytest.or_else(|| mentions_pytest(&requirements, "requirements"));
    let pytest = pytest.or_else(|| {
        let test_file = |name: &str| name.starts_with("tests/test_") && name.ends_with(".py");
        project
            .any_name(|name| test_file(name) || name.starts_with("test_") && name.ends_with(".py"))
            .map(str::to_owned)
    });
    // The project's own runner of all its tests wins, unless its environment has pytest ready.
    let has_own_pytest = venv.is_some_and(|venv| project.has(&format!("{venv}/bin/pytest")));
    let tox = ["tox", "testenv"].iter().find(|name| has_section(project.text("tox.ini"), name));
    match (tox, pytest) {
        (Some(name), _) if !has_own_pytest && runner.is_empty() => {
            found.push(Proposal::new(GateKind::Test, "test", "tox", format!("[{name}] in tox.ini")));
        }
        (_, Some(because)) => {
            let (pytest, because) = call("pytest", because);
            found.push(Proposal::new(GateKind::Test, "test", pytest, because));
        }
        (_, None) if project.has("noxfile.py") => {
            found.push(Proposal::new(GateKind::Test, "test", format!("{runner}nox"), "noxfile.py"));
        }
        (_, None) => {}
    }
    found
}

/// Whether the settings of mypy name the files to check.
fn names_files(text: &str) -> bool {
    let mut is_mypys = false;
    text.lines().map(str::trim).any(|line| {
        if line.starts_with('[') {
            is_mypys = matches!(line, "[tool.mypy]" | "[mypy]");
        }
        let key = line.split('=').next().unwrap_or_default().trim();
        is_mypys && line.contains('=') && matches!(key, "files" | "packages" | "modules")
    })
}

/// As a requirement: at the start of a line or of a list item.
fn mentions_pytest(text: &str, file: &str) -> Option<String> {
    let is_pytest = |requirement: &str| {
        let rest = requirement.trim().strip_prefix("pytest").map(str::trim_start);
        rest.is_some_and(|rest| {
            rest.is_empty() || rest.starts_with(['<', '>', '=', '!', '~', '[', ';', '@', '#'])
        })
    };
    let mentioned = text.lines().any(|line| line.split(['"', '\'']).any(is_pytest));
    mentioned.then(|| format!("pytest in {file}"))
}
