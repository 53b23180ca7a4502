"""The PowerShell that runs inside `pwsh`: all scripts into one session, then command after command.

Between it and the agent stand files of the plan's folder:

::

    work.json          {"Scripts": [file names], "Commands": [{"Name", "Arguments"}], "First": n}
    begun-<n>          command n has begun
    entry-<n>.json     its entry of the result: {"IsException": …, "Result": […]}
    failed.json        [type, message]: a script could not be loaded, no command ran

Each is renamed into place when it is whole, so that a crash leaves it either absent or complete.
"""

TEXT = r"""
param([Parameter(Mandatory = $true)][string]$VetroFolder)

function Write-VetroFile([string]$Name, $Value) {
    $path = Join-Path $VetroFolder $Name
    $text = ConvertTo-Json -InputObject $Value -Depth 20 -Compress
    [System.IO.File]::WriteAllText("$path.new", $text)
    [System.IO.File]::Move("$path.new", $path, $true)
}

function ConvertTo-VetroValue($Value) {
    if ($Value -is [string] -or $Value -is [System.Collections.IDictionary]) { return $Value }
    if ($Value -is [ValueType] -and $Value.GetType().IsPrimitive) { return $Value }
    if ($Value -is [System.Management.Automation.PSCustomObject]) {
        $map = [ordered]@{}
        foreach ($property in $Value.PSObject.Properties) { $map[$property.Name] = [string]$property.Value }
        return $map
    }
    return [string]$Value
}

function Get-VetroError($Record, [string]$Command) {
    $exception = $Record.Exception
    return [object[]]@($exception.GetType().FullName, $exception.Message, $Command, $Record.ScriptStackTrace)
}

$vetroText = Get-Content -Raw -LiteralPath (Join-Path $VetroFolder 'work.json')
$vetroWork = ConvertFrom-Json -InputObject $vetroText -AsHashtable
try {
    foreach ($vetroScript in $vetroWork.Scripts) { . (Join-Path $VetroFolder $vetroScript) }
} catch {
    Write-VetroFile 'failed.json' ([object[]]@($_.Exception.GetType().FullName, $_.Exception.Message))
    exit 1
}
for ($vetroAt = $vetroWork.First; $vetroAt -lt $vetroWork.Commands.Count; $vetroAt++) {
    $vetroCommand = $vetroWork.Commands[$vetroAt]
    Write-VetroFile "begun-$vetroAt" $true
    try {
        $vetroOutput = @()
        if ($vetroCommand.Name) {
            $vetroArguments = $vetroCommand.Arguments
            $vetroOutput = @(& $vetroCommand.Name @vetroArguments)
        }
        $vetroOutput = @($vetroOutput | Where-Object { $null -ne $_ })
        $vetroValues = @($vetroOutput | ForEach-Object { ConvertTo-VetroValue $_ })
        $vetroEntry = @{ IsException = $false; Result = [object[]]$vetroValues }
    } catch {
        $vetroEntry = @{ IsException = $true; Result = (Get-VetroError $_ $vetroCommand.Name) }
    }
    Write-VetroFile "entry-$vetroAt.json" $vetroEntry
    if ($vetroEntry.IsException) { break }
}
exit 0
"""
