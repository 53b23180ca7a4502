function Deploy-WebAppFromGit {
    # Clones a repository, builds its solution if it has one, and serves it as the default site.
    param([Parameter(Mandatory)] [string] $URL, [string] $SiteName = 'WebApp', [string] $Root = 'C:\inetpub\apps')
    $git = (Get-Command git.exe -ErrorAction SilentlyContinue).Source
    if (-not $git) { throw 'git is not installed in the image' }
    $source = Join-Path $Root "$SiteName-source"
    if (Test-Path $source) { Remove-Item $source -Recurse -Force }
    New-Item -ItemType Directory -Path $Root -Force | Out-Null
    & $git clone --quiet -- $URL $source
    if ($LASTEXITCODE -ne 0) { throw "git could not clone the repository (exit code $LASTEXITCODE)" }

    $site = $source
    $solution = Get-ChildItem $source -Filter *.sln -Recurse | Select-Object -First 1
    if ($solution) {
        $builder = Get-ChildItem "$env:windir\Microsoft.NET\Framework64\v4*\MSBuild.exe" | Select-Object -Last 1
        if (-not $builder) { throw 'MSBuild is not installed in the image' }
        & $builder.FullName $solution.FullName /t:Build /p:Configuration=Release /v:quiet
        if ($LASTEXITCODE -ne 0) { throw "MSBuild ended with $LASTEXITCODE" }
        $configuration = Get-ChildItem $source -Filter web.config -Recurse | Select-Object -First 1
        if ($configuration) { $site = $configuration.DirectoryName }
    }
    Import-Module WebAdministration
    if (Get-Website -Name 'Default Web Site') { Stop-Website -Name 'Default Web Site' }
    if (-not (Get-Website -Name $SiteName)) {
        New-Website -Name $SiteName -Port 80 -PhysicalPath $site -Force | Out-Null
    } else {
        Set-ItemProperty "IIS:\Sites\$SiteName" -Name physicalPath -Value $site
    }
    Start-Website -Name $SiteName
    Write-Log "The application of $URL is served"
}
